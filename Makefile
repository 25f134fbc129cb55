# `make demo` and `make test` do all the set-up: they need Python 3.11-3.14 and nothing else.
# The same in plain Python is in the README.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	command -v $$p >/dev/null 2>&1 \
	&& $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null \
	&& { command -v $$p; break; }; done)
VENV ?= .venv
RUN := $(VENV)/bin/python
JOBS ?= 2
# With cuda-bindings the CUDA backend runs on its stand-in where there is no GPU; pycuda would have to be built.
EXTRAS := test,opencl,vulkan,cuda-bindings,examples

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-levels test-python-dispatch check lint types layers install-check bench clean

help:
	@echo 'make demo     a portfolio of options and a photograph, with NumPy and with tracejit; pictures in out/'
	@echo 'make test     the test suite'
	@echo 'make check    all that CI runs: tests, lint, types, layers, wheel and sdist in clean environments'
	@echo 'make test-levels   what depends on the processor, at every level of x86-64 that this one has'
	@echo 'make bench    against NumPy, Numba and JAX; writes docs/benchmarks.md'
	@echo 'make clean    remove .venv, out/, build products and caches'

# One stamp per set of extras, renewed when pyproject.toml changes.
$(VENV)/.have-%: pyproject.toml
	@test -n "$(PYTHON)" || { echo 'No Python 3.11-3.14 on the path: install one, or name it: make PYTHON=/path/to/python3'; exit 1; }
	@test -x $(RUN) && $(RUN) -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV) \
	|| { rm -rf $(VENV); echo 'This Python has no working venv module. On Debian and Ubuntu: apt install python3-venv'; exit 1; }
	$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/.have-examples
	$(RUN) examples/demo.py

test: $(VENV)/.have-$(EXTRAS)
	$(RUN) -m pytest -n $(JOBS)

test-fast: $(VENV)/.have-$(EXTRAS)
	$(RUN) -m pytest -n $(JOBS) -m 'not slow'

# What depends on the processor, as for older ones: x86-64-v2 (128-bit vectors), -v3 (256), -v4 (512).
test-levels: $(VENV)/.have-$(EXTRAS)
	$(RUN) .ci/levels.py $(JOBS)

# The same suite with the call path in Python instead of the compiled entry.
test-python-dispatch: $(VENV)/.have-$(EXTRAS)
	TRACEJIT_DISPATCH=python $(RUN) -m pytest -n $(JOBS) -m 'not slow'

lint: $(VENV)/.have-check
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(VENV)/.have-check $(VENV)/.have-$(EXTRAS)
	$(RUN) -m pyright --pythonpath $(RUN)

layers: $(VENV)/.have-$(EXTRAS)
	$(RUN) -m pytest -q tests/test_layout.py

install-check: $(VENV)/.have-$(EXTRAS)
	$(RUN) .ci/install_check.py

check: test test-levels lint types layers install-check
	$(RUN) .ci/backends_ran.py cpu reference opencl vulkan cuda

bench: $(VENV)/.have-test,bench
	$(RUN) -m benchmarks

clean:
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache .hypothesis
