"""Functions that end whatever is raised: what a trace begins again by goes through them."""

import contextlib

import numpy as np
import pytest

import tracejit as tj


def bare(x):
    try:
        r = x[3] * 1.0 if len(x) > 3 else x.sum()
    except:  # noqa: E722
        r = -1.0
    return r


def of_all(x):
    try:
        a, _, _, _, b = x
        return a + b
    except BaseException:
        return -1.0


def returning(x):
    r = 0.0
    try:
        r = x[3] if len(x) > 3 else x.sum()
    finally:
        return r  # noqa: B012


def continuing(x):
    s = 0.0
    for i in range(3):
        try:
            s += x[i + 2] if len(x) > 4 else x[i]
        finally:
            continue  # noqa: B012
    return s


def suppressing(x):
    with contextlib.suppress(BaseException):
        return x[3]
    return x.sum()


class Guard:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        return kind is not None


def guarded(x):
    with Guard():
        return (x + np.ones(4)).sum()
    return -2.0


def on_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.push(lambda kind, error, traceback: True)
        return x[3] * 2
    return -3.0


def defaulting(function):
    def call(*args):
        try:
            return function(*args)
        except:  # noqa: E722
            return -1.0

    return call


@defaulting
def fourth(x):
    return x[3] + x.mean()


def decorated(x):
    return fourth(x) + fourth(x[1:])


@contextlib.contextmanager
def quietly():
    try:
        yield
    except:  # noqa: E722
        pass


def in_a_generators_manager(x):
    with quietly():
        return x[3] * 2
    return -4.0


class Parts:
    def __init__(self, x):
        self.x, self.i = x, 0

    def __iter__(self):
        return self

    def __next__(self):
        try:
            if self.i >= len(self.x):
                raise StopIteration
            self.i += 1
            return self.x[self.i - 1]
        except:
            raise


def iterated(x):
    s = 0.0
    for v in Parts(x):
        s += v
    return s


@pytest.mark.parametrize(
    "function",
    [
        bare, of_all, returning, continuing, suppressing, guarded, on_a_stack, decorated, in_a_generators_manager,
        iterated,
    ],
)  # fmt: skip
def test_sizes(function):
    f = tj.jit(function)
    for n in (4, 5, 3, 6, 4, 2, 5):
        x = np.arange(1.0, n + 1)
        for _ in range(2):
            assert f(x) == function(x)
