"""The speed of tracejit beside its peers, measured in one run: `python -m benchmarks --help`."""
