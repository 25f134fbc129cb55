"""Layer 1: the three dialects (jaxpr, kernel, program), the forms between them, and the passes over them."""
