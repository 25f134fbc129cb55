"""Layer 0: errors, source locations, configuration, pytrees, dtype promotion, the operating system."""
