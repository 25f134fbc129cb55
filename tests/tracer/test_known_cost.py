"""What a trace knows of its values costs a step for each operation, however many there are."""

import sys

import numpy as np

import tracejit as tj


def steps_of_tracing(count: int) -> int:
    """Python functions called while a program of so many masked statements is traced."""

    def f(x):
        for i in range(count):
            x[x > i] *= 0.5
        return x

    called = 0

    def count_calls(frame, event, _):
        nonlocal called
        called += event == "call" or event == "c_call"

    jitted = tj.jit(f)
    sys.setprofile(count_calls)
    try:
        jitted.lower(np.arange(10.0))
    finally:
        sys.setprofile(None)
    return called


def test_masked_statements_are_traced_in_linear_time():
    few, many = steps_of_tracing(100), steps_of_tracing(400)
    assert many < 5 * few
