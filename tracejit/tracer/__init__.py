"""Layer 2: running Python functions on abstract values: bind, tracers, staging,
and the transformations as interpreters.
"""
