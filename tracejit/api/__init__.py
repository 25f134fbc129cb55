"""Layer 7: the decorators and functions users call."""
