"""Layer 6: from a jaxpr to an executable: the list of passes, the caches."""
