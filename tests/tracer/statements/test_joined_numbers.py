"""Numbers of several classes that meet in branches and loops, and what they decide afterwards."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded
from tracejit.support.errors import FloatIndex, MixedNumber, TracejitError


def as_an_index(x):
    k = 0
    out = np.zeros(4)
    if x[0] > 50:
        k = 1.5
    out[k] += 1
    return out


def in_a_try(x):
    k = 0
    out = np.zeros(4)
    if x[0] > 50:
        k = 1.5
    try:
        out[k] += 1
    except IndexError:
        return -1.0
    return out[0]


def in_a_while(x):
    k = i = 0
    out = np.zeros(4)
    while i < len(x) and x[i] < 9:
        out[k] += 1
        if x[i] > 5:
            k = k / 2
        i += 1
    return out


def of_numpys(x):
    k = 0
    out = np.zeros(4)
    for v in x:
        out[k] += 1
        if v > 50:
            k = v
    return out


@pytest.mark.parametrize("f", [as_an_index, in_a_try, in_a_while, of_numpys])
def test_an_index_that_may_be_a_float_is_refused(f: Callable[..., Any]):
    with pytest.raises(FloatIndex, match=r"write int\(k\)") as caught:
        tj.jit(f)(np.array([1.0, 2.0]))
    assert caught.value.location is not None


def inverted(x):
    k = s = 0
    try:
        for v in x:
            s += ~k
            if v > 50:
                k = v
    except TypeError:
        return -5
    return s


def shifted(x):
    k = s = 0
    for v in x:
        s += 1 << k
        if v > 50:
            k = 1.0
    return s


@pytest.mark.parametrize("f", [inverted, shifted])
def test_operators_of_integers_do_not_decide(f: Callable[..., Any]):
    with pytest.raises(TracejitError):
        tj.jit(f)(np.array([1.0, 2.0]))


class Colour(enum.IntEnum):
    RED = 1
    GREEN = 2


class Hundred(int):
    def __add__(self, other: Any) -> Any:
        return 100


def chosen(x):
    c = Colour.RED if x[0] > 0 else Colour.GREEN
    return c is Colour.RED


def picked(v):
    return Colour.RED if v > 0 else Colour.GREEN


def returned(x):
    return picked(x[0]) is Colour.RED


def looked_up(x):
    return [Colour.RED, Colour.GREEN][int(x[0])] is Colour.RED


def added(x):
    return (Hundred(1) if x[0] > 0 else Hundred(2)) + 1


@pytest.mark.parametrize("f", [chosen, returned, looked_up, added])
def test_other_classes_of_numbers_are_refused(f: Callable[..., Any]):
    with pytest.raises(TracejitError):
        tj.jit(f)(np.array([1.0, 2.0]))


def test_members_of_an_enumeration_are_compared():
    def f(d):
        s = 0
        for v in d:
            if v == Colour.RED:
                s += Colour.GREEN
            elif v == Colour.GREEN:
                s += 10
        return s

    d = np.array([1, 2, 3, 1])
    assert tj.jit(f)(d) == f(d)


def test_a_checkpoint_keeps_the_class_of_numbers():
    kept = tj.jit(lambda v: tj.checkpoint(lambda v: (int(v[0]), float(v[1]), v[1]))(v))
    assert [type(x) for x in kept(np.array([2.0, 3.0]))] == [int, float, np.float64]
    mixed = tj.jit(lambda i: tj.checkpoint(lambda i: i[0] if i[1] > 0 else 100)(i) * 2)
    assert mixed(np.array([50, 1], np.int8)) == 100
    with pytest.raises(MixedNumber):
        mixed(np.array([100, 0], np.int8))


def test_lengths_among_items_and_places_that_may_have_been_none():
    def f(x, d):
        n = len(x)
        return [n, 2 * n, 0][d[0]], (n, n * n)[d[1]]

    compiled = tj.jit(f)
    for n in (2, 3, 5):
        for d in ([0, 1], [2, 0], [1, 1]):
            assert compiled(np.ones(n), np.array(d)) == f(np.ones(n), np.array(d))

    def found(x):
        for k in range(len(x)):
            if x[k] > 0:
                return k
        return None

    def g(x):
        p = found(x)
        if p is None:
            return -1
        return [5, 6, 7][p]

    compiled = tj.jit(g)
    for x in ([1.0, 2.0, 3.0], [-1.0, -1.0, 2.0], [-1.0, -1.0, -1.0]):
        assert compiled(np.array(x)) == g(np.array(x))


def test_a_list_that_a_loop_with_a_break_empties_is_refused():
    def f(x, d):
        q, s = list(range(len(x))), 0.0
        while q:
            i = q.pop()
            if d[i] == 1:
                return s
            s += x[i]
        return s

    for n in (1, 2, 3):
        with pytest.raises(TracejitError):
            tj.jit(f)(np.arange(n) + 1.0, np.zeros(3, int))


def test_an_aux_result_is_not_none():
    def f(v):
        return v.sum() ** 2, (v[0] if v[0] > 0 else None)

    compiled = tj.jit(lambda v: tj.value_and_grad(f, has_aux=True)(v)[0][1])
    assert compiled(np.array([2.0, 1.0])) == 2.0
    with pytest.raises(TypeError, match="is None here"):
        compiled(np.array([-2.0, 1.0]))


def set_in_a_loop(x):
    q = False
    for v in x:
        if v > 0:
            q = v > 1
    return q + True, q * True, q + q


def by_or(x):
    q = x[0] > 0 or False
    return q * True, q + np.True_, q & True


@pytest.mark.parametrize("f", [set_in_a_loop, by_or])
def test_sums_of_bools_that_may_be_pythons(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in ([1.0, 2.0], [0.5, -1.0], [-1.0, -2.0], [2.0, 1.0]):
        want = f(np.array(x))
        try:
            got = compiled(np.array(x))
        except MixedNumber:
            assert type(want[0]) is int
        else:
            assert repr(got) == repr(want)


@pytest.mark.parametrize("v", [2.0, 3.5, 2, 3])
def test_powers_of_numbers_among_the_arguments(v: Any):
    for f in (lambda v: v**2j, lambda v: v ** (1 + 0j), lambda v: (v * 1.0) ** 1j, lambda v: v**-1, lambda v: v**-3):
        got, want = tj.jit(f)(v), f(v)
        assert type(got) is type(want)
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_the_greatest_with_a_default():
    x = np.array([1.0, 22.5, -3.0])
    for f in (
        lambda x: max(x, default=0), lambda x: min([x[0], x[1]], default=None), lambda x: max([], default=x[0]),
        lambda x: max((abs(v) for v in x), default=0.0), lambda x: max([v for v in x], default=-1, key=None),
    ):  # fmt: skip
        got, want = tj.jit(f)(x), f(x)
        assert repr(got) == repr(want)


class Private:
    def __init__(self):
        self.__total = 0.0

    def __step(self, v):
        if v > 0:
            return v * 2
        return v

    def __tree(self, v, n):
        return v if n == 0 else self.__tree(v * 2 if v > 0 else v - 1, n - 1)

    @staticmethod
    def __least(v):
        return v if v < 1 else v * 0 + 1

    def __count(self, x):
        __n = 0

        def add():
            nonlocal __n
            __n += 1

        for v in x:
            if v > 0:
                add()
        return __n

    def run(self, x):
        for v in x:
            self.__total += self.__step(v)
        return self.__total, self.__least(x[0]), self.__tree(x[1], 2), self.__count(x), self.__keyword(__k=x[0])

    def __keyword(self, **given):
        return given["__k"] if given["__k"] > 0 else 0.0


def test_private_methods_decide():
    compiled = tj.jit(lambda x: Private().run(x))
    for x in (np.array([1.0, -2.0, 3.0]), np.array([-1.0, 2.0, -3.0])):
        np.testing.assert_array_equal(compiled(x), Private().run(x))


class Coded(ValueError):
    def __init__(self, code):
        super().__init__("no convergence")
        self.code = code


def test_exceptions_of_one_line_have_what_they_carry():
    def coded(x):
        for k in range(3):
            if x[k] > 0:
                raise Coded(k)
        return x

    def alike(x):
        for k in ((1, 2), "(1, 2)"):
            if x[len(k) % 2] > 0:
                raise ValueError(k)
        return x

    compiled, plain = tj.jit(coded), tj.jit(alike)
    for k in range(3):
        with pytest.raises(Coded) as caught:
            compiled(np.eye(3)[k])
        assert caught.value.code == k
    for k, want in enumerate([(1, 2), (1, 2)]):
        with pytest.raises(ValueError, match="1, 2") as error:
            plain(np.eye(2)[k]) if k == 0 else plain(np.ones(2))
        assert error.value.args == (want,)


def find(x, v):
    for j in range(len(x)):
        if x[j] > v:
            return j, x[j]
    return None


@pytest.mark.parametrize("f", [
    lambda x: find(x, 5.0) == None, lambda x: None == find(x, 5.0), lambda x: find(x, 5.0) != None,  # noqa: E711
    lambda x: find(x, 5.0) is None,
])  # fmt: skip
def test_comparisons_with_none_in_functions_without_jumps(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in (np.array([1.0, 2.0]), np.array([1.0, 7.0])):
        assert compiled(x) is f(x)


@pytest.mark.parametrize("f", [
    lambda a: min(a), lambda a: max(a), lambda a: max(a) - min(a), lambda a: max([abs(v) for v in a]),
    lambda a: min(float(v) for v in a), lambda a: max(list(a)),
])  # fmt: skip
def test_the_least_and_greatest_of_many(f: Callable[..., Any]):
    """As Python compares: the first of equal ones, a NaN only where it comes first."""
    compiled, rng = tj.jit(f), np.random.default_rng(0)
    for n in (3, 18, 40, 41, 2, 1, 40, 41):
        for _ in range(3):
            for dtype in (np.float64, np.int16, np.float32):
                a = rng.integers(-3, 4, n).astype(dtype)
                if dtype != np.int16 and rng.random() < 0.7:
                    a[rng.integers(0, n)], a[rng.integers(0, n)], a[-1] = np.nan, -0.0, np.inf
                with np.errstate(invalid="ignore"):
                    assert repr(compiled(a)) == repr(f(a))
    with pytest.raises(ValueError, match="empty"):
        compiled(np.zeros(0))


def test_the_least_of_an_array_is_one_loop():
    compiled = tj.jit(lambda a: min(a))
    compiled(np.arange(20.0))
    compiled(np.arange(30_000.0))
    assert len(compiled.lower(np.arange(30_000.0)).text("jaxpr").splitlines()) < 20


class Vector(NamedTuple):
    a: Any
    b: Any

    def __rmul__(self, other):
        return Vector(other * self.a, other * self.b)


class Row:
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]

    def __rmul__(self, other):
        return Row([other * v for v in self.values])


class Made:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0, 2.0])

    def __rmul__(self, other):
        return other * 5


def test_numbers_of_numpy_times_sequences():
    x = np.array([1.0, 2.0])
    for f in (
        lambda x: x[0] * [1, 2, 3], lambda x: (1, 2) * x.sum(), lambda x: (x[0] > 0) * [1, 2],
    ):  # fmt: skip
        with pytest.raises(TypeError, match="can't multiply sequence"):
            f(x)
        with pytest.raises(TypeError, match="can't multiply sequence"):
            tj.jit(f)(x)
    for f in (
        lambda x: x[0] * Vector(x[0], x[1]),
        lambda x: x[0] * Row([x[0], x[1]]),
        lambda x: x[0] == Row([1.0, 2.0]),
    ):
        with pytest.raises(TracejitError, match="makes an array"):
            tj.jit(f)(x)
    assert tj.jit(lambda n: n * Made())(3) == 15
    assert tj.jit(lambda n: n * Vector(1, 2))(3) == Vector(3, 6)


class Metres(np.float64):
    unit = "m"

    def __mul__(self, other):
        return 77.0


def test_numbers_of_classes_derived_from_numpys():
    f = tj.jit(lambda v, x: (v * 2, v.unit, isinstance(v, Metres), x * 3))
    for v in (Metres(2.0), Metres(3.0)):
        got = f(v, np.ones(2))
        assert got[:3] == (77.0, "m", True)


def recorded(x):
    CELLS.append(len(x[x > 0]))
    return x.sum()


CELLS: list[Any] = []


def test_counts_are_not_stored_outside():
    with pytest.raises(TracejitError, match="counts is stored outside"):
        tj.jit(recorded)(np.array([1.0, -1.0]))
    assert not CELLS


class Machine:
    closed = False

    def run(self, x):
        if self.closed:
            raise RuntimeError("closed", len(x), x.shape)
        return x.sum()


def test_exceptions_carry_numbers_and_no_extents():
    machine = Machine()
    compiled = tj.jit(machine.run)
    for n in (3, 4, 5):
        assert compiled(np.ones(n)) == n
    machine.closed = True
    for n in (6, 7, 3):
        with pytest.raises(RuntimeError) as caught:
            compiled(np.ones(n))
        assert caught.value.args == ("closed", n, (n,))

    asserted = loaded(ASSERTED)["asserted"]
    checked = tj.jit(asserted)
    assert checked(np.ones(3)) == 3
    with pytest.raises(AssertionError, match="Tracer<"):
        checked(-np.ones(3))
    with pytest.raises(ValueError, match=r"only Tracer<.*> points of 4"):
        checked(np.array([1.0, 2.0, -1.0, -1.0]))


ASSERTED = """
def asserted(x):
    n = len(x[x > 0])
    assert n > 1, n
    if n < 3:
        raise ValueError(f"only {n} points of {len(x)}")
    return x.sum()
"""


def by_shapes(x):
    if x[0] > 1:
        raise KeyError("neg")
    return x @ np.ones(7)


def by_ranks(x):
    for v in x:
        if v > 1:
            raise RuntimeError("big")
    return np.concatenate([x, np.ones((2, 2))])


def by_an_index(x):
    if x[0] > 1:
        raise KeyError("neg")
    return x[100]


def by_a_name(x):
    if x[0] > 1:
        raise KeyError("neg")
    return undefined_name  # noqa: F821


def by_a_branch(x):
    if x[0] > 1:
        y = 1
    else:
        raise KeyError("neg")
    return y + x @ np.ones(7)


@pytest.mark.parametrize("f", [by_shapes, by_ranks, by_an_index, by_a_name, by_a_branch])
def test_errors_of_numpys_come_behind_those_that_data_decide(f: Callable[..., Any]):
    compiled = tj.jit(f)
    for x in ([1.5, 0.2, 3.0], [0.5, 0.2, 0.3], [1.5, 0.1, 0.1, 0.1], [0.5, 0.2, 0.3, 0.4]):
        with pytest.raises(Exception) as want:  # noqa: PT011
            f(np.array(x))
        with pytest.raises(type(want.value)):
            compiled(np.array(x))


def test_none_on_one_side_of_a_tuple_is_refused_with_advice():
    def least(x):
        best = (np.inf, None)
        for t in x:
            if t < best[0]:
                best = (t, 2 * t)
        return best[0]

    with pytest.raises(TracejitError, match="needs a name of its own"):
        tj.jit(least)(np.arange(3.0))


class Traced:
    def __init__(self, a):
        self.a = a

    def __array__(self, dtype=None, copy=None):
        return np.array([self.a, self.a])


def test_classes_that_give_traced_arrays_to_numpy_are_refused():
    def f(x):
        try:
            return np.sum(np.sin(Traced(x[0])))
        except ValueError:
            return -1.0

    assert tj.jit(lambda x: np.sum(np.asarray(Traced(x[0]))))(np.ones(2)) == 2
    with pytest.raises(TracejitError):
        tj.jit(f)(np.ones(2))
