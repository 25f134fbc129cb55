"""Layer 4: backends.  One folder each, one registration, no edit elsewhere."""
