"""Shapes are Python integers to a function, whatever it does with them: keys, text, types, what it stores;
at the first size and later."""

from __future__ import annotations

import fractions  # noqa: F401
import itertools  # noqa: F401
import json
import math  # noqa: F401
import struct  # noqa: F401
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tracejit as tj

TABLE = {(2,): 10.0, (3,): 20.0, (5,): 50.0}
BY_SIZE = {2: 20.0, 3: 30.0}


@dataclass
class Held:
    n: int


FORMS: list[Callable[[Any], Any]] = [
    lambda x: x * TABLE.get(x.shape, -1), lambda x: x * (1 if x.shape in {(2,), (3,)} else 0),
    lambda x: x * BY_SIZE.get(x.shape[0], -1), lambda x: x * {((2,), "f"): 3.0}.get((x.shape, x.dtype.kind), 1.0),
    lambda x: x * (hash(x.shape) == hash((3,))), lambda x: x * (10 if isinstance(x.shape[0], int) else -1),
    lambda x: x * (10 if isinstance(x.size, (int, float)) else -1), lambda x: x * (10 if type(x.size) is int else -1),
    lambda x: x * all(isinstance(s, int) for s in x.shape),
    lambda x: x * (isinstance(x.shape[0] + 1, int) + isinstance(x.nbytes, int)), lambda x: type(x.size).__name__,
    lambda x: str(x.shape), lambda x: "%s" % (x.shape,), lambda x: f"{x.shape}", lambda x: f"{x.size:>5}",  # noqa: UP031
    lambda x: repr(x.size), lambda x: "{} {:03d}".format(x.shape, x.size),  # noqa: UP032
    lambda x: "x".join(map(str, x.shape)), lambda x: str(Held(x.shape[0])),
    lambda x: x * x.size.bit_length(), lambda x: {str(x.size): x}, lambda x: x * len({x.size, 3}),
    lambda x: x * sum(map(int, str(x.size))),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FORMS)))
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_at_every_size(number: int, dynamic: bool | None):
    f = FORMS[number]
    jitted = tj.jit(f, dynamic_shapes=dynamic)
    for n in (3, 2, 5, 7, 4, 3, 11):
        x = np.arange(float(n))
        found, want = jitted(x), f(x)
        assert type(found) is type(want)
        if isinstance(want, np.ndarray):
            np.testing.assert_array_equal(found, want)
        elif isinstance(want, dict):
            assert list(found) == list(want)
        else:
            assert found == want


def test_what_is_kept_of_shapes():
    class Owner:
        last: Any = None

    seen: list[Any] = []
    best: dict[Any, Any] = {}
    owner = Owner()

    @tj.jit
    def f(x: Any) -> Any:
        seen.append(x.shape)
        best[x.shape] = x.size
        owner.last = (len(x), {"n": x.shape[0] + 1})
        return x

    for n in (3, 2, 5, 4):
        f(np.ones(n))
        assert owner.last == (n, {"n": n + 1})
    assert seen == [(3,), (2,), (5,), (4,)]
    assert best == {(3,): 3, (2,): 2, (5,): 5, (4,): 4}
    assert {type(n) for shape in seen for n in shape} | set(map(type, best.values())) == {int}


def test_a_memo_by_shape():
    memo: dict[Any, float] = {}

    def f(x: Any) -> Any:
        if x.shape not in memo:
            memo[x.shape] = float(x.size)
        return x * memo[x.shape]

    jitted = tj.jit(f)
    for n in (3, 2, 5, 7, 2, 3):
        assert jitted(np.ones(n)).tolist() == [float(n)] * n


def test_one_program_still_serves_all_sizes_where_shapes_are_shapes():
    jitted = tj.jit(lambda x: np.zeros(x.shape) + x.size * np.sum(x) / x.shape[0])
    for n in (3, 4, 5, 6, 7):
        jitted(np.ones(n))
    assert jitted.compilations == 2


def test_json_is_right_at_every_size():
    jitted = tj.jit(lambda x: json.dumps(list(x.shape)))
    assert [jitted(np.ones(n)) for n in (3, 2, 5, 3)] == ["[3]", "[2]", "[5]", "[3]"]


WANT_NUMBERS = [
    "a * np.fft.fftfreq(n + 1)[:n]", "np.diff(a, n // 3)", "a + sum(itertools.islice(itertools.count(), n))",
    "a * math.ldexp(1.0, n % 5)", "a * float(fractions.Fraction(1, n + 1))", "a + len(json.dumps([n]))",
    "a + struct.unpack('i', struct.pack('i', n))[0]",
]  # fmt: skip


@pytest.mark.parametrize("form", WANT_NUMBERS)
def test_whoever_wants_a_number_gets_one_at_every_size(form: str):
    f = eval(f"lambda a: (lambda n: {form})(a.shape[0])", globals())
    jitted = tj.jit(f)
    for n in (20, 40, 7, 20, 3, 41):
        a = np.arange(float(n))
        np.testing.assert_allclose(jitted(a), f(a), rtol=1e-15)


def test_what_the_function_raises_itself_is_not_tried_again():
    calls: list[Any] = []

    def f(a):
        calls.append(a.shape)
        if a.shape[0] == 4:
            raise ValueError("four")
        assert a.ndim == 1
        return a + 1

    jitted = tj.jit(f)
    jitted(np.ones(3))
    with pytest.raises(ValueError, match="four") as caught:
        jitted(np.ones(4))
    assert caught.value.__context__ is None
    calls.clear()

    def g(a):
        calls.append(0)
        raise ValueError("at any size")

    jitted = tj.jit(g, dynamic_shapes=True)
    with pytest.raises(ValueError, match="at any size"):
        jitted(np.ones(3))
    assert len(calls) == 1


def kind_of(n: Any) -> str:
    match n:
        case int():
            return "integer"
        case _:
            return "other"


@pytest.mark.parametrize(
    "form",
    ["n.__class__ is int", "sum(d for d in a.shape if d.__class__ is int)", "{int: 'i'}.get(n.__class__, '?')",
    "n.__class__.__name__",
     "kind_of(n)", "a.size.__class__(3.5) + a.sum()"],
)  # fmt: skip
def test_the_class_of_an_extent_is_that_of_an_integer(form: str):
    f = eval(f"lambda a: (lambda n: {form})(a.shape[0])", globals())
    jitted = tj.jit(f)
    for n in (4, 6, 9):
        assert jitted(np.ones((n, n + 1))) == f(np.ones((n, n + 1)))


@pytest.mark.parametrize(
    "number",
    [3.0, 3.5, 3 + 0j, 3 + 1j, Fraction(3), Fraction(7, 2), Decimal(3), np.float64(3), np.float32(3), np.inf, np.nan],
)
def test_an_extent_equals_numbers_of_every_kind(number: Any):
    for asks in (
        lambda x: x * 2 if x.shape[0] == number else -x,
        lambda x: x * 2 if number == x.shape[0] else -x,
        lambda x: x * 2 if x.shape[0] != number else -x,
        lambda x: x * 2 if number in x.shape else -x,
        lambda x: x * 2 if x.size == number else -x,
    ):
        compiled = tj.jit(asks)
        for n in (2, 4, 3, 5, 3, 6):
            np.testing.assert_array_equal(compiled(np.ones(n)), asks(np.ones(n)))


def test_an_extent_equals_another_divided():
    def f(x):
        return x * 2 if x.shape[0] == x.shape[1] / 2 else -x

    compiled = tj.jit(f)
    for shape in ((2, 2), (4, 4), (2, 4), (3, 3), (3, 6)):
        np.testing.assert_array_equal(compiled(np.ones(shape)), f(np.ones(shape)))


def test_extents_are_results_of_transformed_functions():
    compiled = tj.jit(tj.vmap(lambda x: (x.sum(), x.shape[0])))
    for n in (2, 3, 4):
        total, sizes = compiled(np.ones((2, n)))
        assert (total.tolist(), sizes.tolist()) == ([n, n], [n, n])
