"""Errors that only arguments decide, caught as users do: the numbers are known where a handler needs them."""

import math

import numpy as np
import pytest

import tracejit as tj


def parts_of_counters(x, k):
    s = 0.0
    try:
        for i in range(len(x)):
            s += x[i] / (i + 1)
    except Exception:
        s = -1.0
    return s


def percentile_of_an_argument(x, k):
    try:
        return np.percentile(x, k * 10)
    except ValueError:
        return -1.0


def asserted_of_an_argument(x, k):
    try:
        assert k > 2
        return x.sum()
    except AssertionError:
        return -1.0


def counter_and_argument(x, k):
    s = 0.0
    try:
        for i in range(5):
            s += 1 / (i + k)
    except ZeroDivisionError:
        s = -1.0
    return s + x[0]


def raised_by_an_argument(x, k):
    try:
        if k > 3:
            raise ValueError
        return x * k
    except ValueError:
        return x


def deviation(x, k):
    try:
        m = sum(x) / len(x)
        v = sum((t - m) ** 2 for t in x) / (len(x) - 1)
        return math.sqrt(v) if v > 0 else 0.0
    except ZeroDivisionError:
        return 0.0


def list_of_exponentials(x, k):
    try:
        r = []
        for v in x:
            r.append(math.exp(-v) * k)
        return np.array(r)
    except Exception:
        return x


def element_by_an_argument(x, k):
    try:
        return x[k]
    except IndexError:
        return x[-1] * 0


def power_of_an_argument(x, k):
    try:
        y = x**k
    except Exception:
        y = x
    return y / k


def half(x, k):
    try:
        n = int(k / 2)
        return x[:n].sum() / n
    except ZeroDivisionError:
        return 0.0


PROGRAMS = [
    parts_of_counters,
    percentile_of_an_argument,
    asserted_of_an_argument,
    counter_and_argument,
    raised_by_an_argument,
    deviation,
    list_of_exponentials,
    element_by_an_argument,
    power_of_an_argument,
    half,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("whole", [np.array([1.0, 2.0, 4.0]), np.arange(1, 5)])
def test_errors_that_arguments_decide(f, whole):
    compiled = tj.jit(f)
    for size, k in ((3, 1), (2, 2), (1, 4), (3, 5), (3, 0), (3, -1), (2, 11), (3, 1)):
        x = whole[:size]
        try:
            wanted = f(x, k)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(x, k)
            continue
        np.testing.assert_allclose(compiled(x, k), wanted)
