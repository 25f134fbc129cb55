"""Names of SciPy's over tracejit's arrays."""
