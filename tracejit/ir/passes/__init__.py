"""The passes over the dialects, one a file, each a pure function."""
