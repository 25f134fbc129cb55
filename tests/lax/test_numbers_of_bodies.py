"""Python numbers that meet NumPy's scalars in the branches and loops of tj.lax: the value that plain Python has, or an
error that names both; never a number cut to a narrower kind.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError, TracejitError

lax = tj.lax

NUMBERS = [True, False, 0, 1, 7, -1, 300, 2.5, -0.5, 0.0, 7.389]
DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float32, np.float64]

# Functions of a number and an array, in which both are results of branches, or the number a carry that becomes an
# element of the array.
PROGRAMS: dict[str, Callable[..., Any]] = {
    "true branch": lambda n, z: lax.cond(z[0] == z[0], lambda: n, lambda: z[1]),
    "false branch": lambda n, z: lax.cond(z[0] != z[0], lambda: z[1], lambda: n),
    "branch not taken": lambda n, z: lax.cond(z[0] != z[0], lambda: n, lambda: z[1]),
    "computed number": lambda n, z: lax.cond(z[0] == z[0], lambda: n * 1, lambda: z.max()),
    "switch": lambda n, z: lax.switch((z[0] == z[0]) * 2, [lambda: z[0], lambda: z[1], lambda: n]),
    "scan": lambda n, z: lax.scan(lambda c, a: (a, c), n, z)[1],
    "scan of sums": lambda n, z: lax.scan(lambda c, a: (a, a + c), n, z),
    "fori_loop": lambda n, z: lax.fori_loop(0, 2, lambda i, c: (z[i], c[1] + c[0]), (n, 0.0)),
    "no iteration": lambda n, z: lax.fori_loop(0, z.shape[0] - 2, lambda i, c: z[0], n),
    "while_loop": lambda n, z: lax.while_loop(lambda c: c[1] < 2, lambda c: (z[c[1]], c[1] + 1), (n, 0)),
    "condition": lambda n, z: lax.while_loop(lambda c: (c[0] > 2) & (c[1] < 3), lambda c: (z[0], c[1] + 1), (n, 0)),
}


def plain(f: Callable[..., Any], n: Any, z: np.ndarray) -> Any:
    """What Python makes of it: loops by hand, as tj.lax without a trace stages them too."""
    pick = {
        "true branch": lambda: n, "false branch": lambda: n, "branch not taken": lambda: z[1],
        "computed number": lambda: n * 1, "switch": lambda: n, "scan": lambda: [n, z[0]],
        "scan of sums": lambda: (z[1], [z[0] + n, z[1] + z[0]]), "fori_loop": lambda: (z[1], 0.0 + n + z[0]),
        "no iteration": lambda: n, "while_loop": lambda: (z[1], 2),
    }  # fmt: skip
    if f is PROGRAMS["condition"]:
        c, k = n, 0
        while c > 2 and k < 3:
            c, k = z[0], k + 1
        return c, k
    return pick[next(name for name, g in PROGRAMS.items() if g is f)]()


def values(tree: Any) -> list[float]:
    return [float(x) for part in (tree if isinstance(tree, (tuple, list)) else [tree]) for x in np.ravel(part)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_number_is_not_cut_to_a_narrower_kind(name: str):
    f, answered = PROGRAMS[name], 0
    for dtype in DTYPES:
        z = np.array([1, 0], dtype)
        argument = tj.jit(f)
        for n, how in itertools.product(NUMBERS, ("literal", "argument", "eager")):
            with np.errstate(all="ignore"):
                try:
                    want = plain(f, n, z)
                except OverflowError:
                    continue
            try:
                if how == "literal":
                    got = tj.jit(functools.partial(f, n))(z)
                else:
                    got = (argument if how == "argument" else f)(n, z)
            except (ShapeError, OverflowError):  # OverflowError: a number that the dtype does not hold
                continue
            answered += 1
            exact = np.float32 if dtype == np.float32 else np.float64
            np.testing.assert_array_equal(
                exact(values(got)), exact(values(want)), f"{name}: {n!r} and {dtype.__name__}"
            )
    assert answered > 100


def test_the_error_names_the_number():
    with pytest.raises(TracejitError, match=r"result 0 is a Python float in the true branch and i64\[\] in the false"):
        tj.jit(lambda z: lax.cond(z[0] > 0, lambda: 0.5, lambda: z.max()))(np.arange(3))
    with pytest.raises(TracejitError, match=r"carry 0 is a Python int before and bool\[\] after an iteration"):
        tj.jit(lambda z: lax.fori_loop(0, 3, lambda i, c: z[i] > 1, 7))(np.arange(3))


def test_a_number_that_may_not_fit_is_checked_in_one_branch():
    """The check is a cell that the other branch, too, hands on."""
    f = tj.jit(lambda z, k: lax.cond(k > 1, lambda: k * 100, lambda: z[0]))
    z = np.array([3, 5], np.int8)
    assert [int(f(z, k)) for k in (0, 1)] == [3, 3]
    with pytest.raises(OverflowError):
        f(z, 2)
