"""From a Python call to a compiled program and back."""
