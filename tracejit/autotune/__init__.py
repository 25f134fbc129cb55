"""Layer 5: which schedule a kernel runs under: heuristic, database or search."""
