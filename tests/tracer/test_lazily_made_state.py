"""State that a loop's first iteration makes, where the following ones find it: attributes, keys, attributes of
functions, containers of every class, iterators, closures.  What each iteration does to it is what it does in plain
Python.
"""

import collections
import functools
import itertools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError


class Box:
    pass


class Delay:
    def run(self, v: Any) -> Any:
        if not hasattr(self, "line"):
            self.line = collections.deque([0.0] * 4, maxlen=4)
        out = self.line[0]
        self.line.append(v)
        return out


class Steps:
    def __call__(self, v: Any) -> Any:
        if not hasattr(self, "run"):
            self.run = self.steps()
        return v * next(self.run)

    def steps(self) -> Iterator[float]:
        yield 1.0
        yield 1.0
        while True:
            yield 3.0


class Mapping(dict[str, Any]):
    pass


class Pair(collections.namedtuple("Pair", "a b")):
    n: Any


class Counting(itertools.count):  # type: ignore[type-arg]
    pass


def in_an_attribute(x: Any) -> Any:
    m, y = Delay(), np.zeros_like(x)
    for i in range(len(x)):
        y[i] = m.run(x[i])
    return y


def _with(make: Callable[[], Any], use: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        d: dict[str, Any] = {}
        y = np.zeros_like(x)
        for i in range(len(x)):
            y[i] = use(d.setdefault("c", make()), x[i])
        return y

    return function


def _shift_attributes(c: Any, v: Any) -> Any:
    out = c.b
    c.b, c.a = c.a, v
    return out


def _shift_items(c: Any, v: Any) -> Any:
    out = c["b"]
    c["b"], c["a"] = c["a"], v
    return out


def _count(c: Any, v: Any) -> Any:
    c["n"] += 1
    return v * c["n"]


def _counter() -> Callable[[Any], Any]:
    k = 0

    def step(v: Any) -> Any:
        nonlocal k
        k += 1
        return v * k

    return step


in_a_namespace = _with(lambda: types.SimpleNamespace(a=0.0, b=0.0), _shift_attributes)
in_a_defaultdict = _with(lambda: collections.defaultdict(float), _shift_items)
in_an_ordered_dict = _with(lambda: collections.OrderedDict(a=0.0, b=0.0), _shift_items)
in_a_mapping_of_ones_own = _with(lambda: Mapping(n=0), _count)
in_a_counter = _with(collections.Counter, _count)
in_an_iterator = _with(lambda: iter([1.0, 1.0, 2.0, 2.0, 3.0] * 50), lambda c, v: v * next(c))
in_a_closure = _with(_counter, lambda c, v: c(v))


def in_a_generator(x: Any) -> Any:
    g, y = Steps(), np.zeros_like(x)
    for i in range(len(x)):
        y[i] = g(x[i])
    return y


def in_a_tuple(x: Any) -> Any:
    d: dict[str, Any] = {}
    s = x[0] * 0
    for v in x:
        d["n"] = (d.get("n", (0,))[0] + 1,)
        s = s + v
    return s, d["n"][0]


def in_a_list_that_grows(x: Any) -> Any:
    d: dict[str, Any] = {}
    s = x[0] * 0
    for v in x:
        d.setdefault("h", []).append(1)
        s = s + v
    return s, len(d["h"])


def beside_an_array_of_an_earlier_loop(x: Any) -> Any:
    o: Any = Box()
    s = x[0] * 0
    for v in x:
        o.st = (v, 0)
    for v in x:
        o.st = (v, o.st[1] + 1)
        s = s + v * o.st[1]
    return s


def whether_it_is_there(x: Any) -> Any:
    d: dict[str, Any] = {}
    y = np.zeros_like(x)
    for i in range(len(x)):
        if "c" not in d:
            d["c"] = x * 2
            k = 1.0
        else:
            k = 2.0
        y[i] = x[i] * k * d["c"][0]
    return y


def one_array_then_another(x: Any) -> Any:
    a, b = x * 2, x * 3
    d: dict[str, Any] = {}
    s = x[0] * 0
    for v in x:
        w = d.get("before", a)
        d["before"] = b
        s = s + v * w[0]
    return s


def of_a_tuple_with_attributes(x: Any) -> Any:
    p = Pair(1.0, 2.0)
    p.n = 0
    s = x[0] * 0
    for v in x:
        p.n += 1
        s = s + v * p.n
    return s


def of_a_class_of_iterators(x: Any) -> Any:
    c: Any = Counting()
    s = x[0] * 0
    for v in x:
        s = s + v * next(c)
    return s


def lazy() -> Any:
    if not hasattr(lazy, "k"):
        lazy.k = 0  # pyright: ignore[reportFunctionMemberAccess]
    lazy.k += 1  # pyright: ignore[reportFunctionMemberAccess]
    return lazy.k  # pyright: ignore[reportFunctionMemberAccess]


def of_a_function(x: Any) -> Any:
    s = x[0] * 0
    for v in x:
        s = s + v * lazy()
    n = lazy.k  # pyright: ignore[reportFunctionMemberAccess]
    del lazy.k  # pyright: ignore[reportFunctionMemberAccess]
    return s, n


def of_a_function_alone(x: Any) -> Any:
    for _ in x:
        lazy()
    n = lazy.k  # pyright: ignore[reportFunctionMemberAccess]
    del lazy.k  # pyright: ignore[reportFunctionMemberAccess]
    return x * n


PROGRAMS = [
    in_an_attribute, in_a_namespace, in_a_defaultdict, in_an_ordered_dict, in_a_mapping_of_ones_own, in_a_counter,
    in_an_iterator, in_a_closure, in_a_generator, in_a_tuple, in_a_list_that_grows, beside_an_array_of_an_earlier_loop,
    whether_it_is_there, one_array_then_another, of_a_tuple_with_attributes, of_a_class_of_iterators, of_a_function,
    of_a_function_alone,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*is written out:UserWarning")
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_what_the_first_iteration_makes_the_others_find(number: int):
    program = PROGRAMS[number]
    compiled = tj.jit(program)
    for size in (10, 7, 40, 3):
        x = np.sin(np.arange(1.0, size + 1)) * 9
        want, got = program(x), compiled(x)
        for one, other in zip(
            want if type(want) is tuple else (want,), got if type(got) is tuple else (got,), strict=True
        ):
            np.testing.assert_allclose(other, one, rtol=1e-12)


OUTSIDE: Any = Box()
TABLE: dict[str, Any] = {}


@pytest.mark.parametrize("value", [{"k": 1}, {1, 2}, Box(), lambda v: v + 1, (1, "a"), [2.5]])
def test_what_a_branch_that_is_not_taken_would_put_outside_is_not_there(value: Any):
    vars(OUTSIDE).clear()
    TABLE.clear()

    def attribute(x: Any) -> Any:
        if x[0] > 100:
            OUTSIDE.a = value
        return x * (2 if hasattr(OUTSIDE, "a") else 1)

    def key(x: Any) -> Any:
        if x[0] > 100:
            TABLE["a"] = value
        return x * (2 if "a" in TABLE else 1)

    for function in (attribute, key):
        with pytest.raises(TracejitError, match="gets a new name or key"):
            tj.jit(function)(np.ones(3))


@functools.lru_cache
def kept(n: int) -> float:
    return n * 2.0


KEPT: list[Any] = []


def counted_behind_a_list(x: Any) -> Any:
    o: Any = Box()
    o.n = 0
    KEPT.append(o)
    s = x[0] * 0
    k = kept(3)
    for v in x:
        KEPT[-1].n += 1
        s = s + v * KEPT[-1].n * k
    return s, KEPT.pop().n


def test_objects_in_containers_from_outside_are_seen_after_a_function_that_keeps_its_results():
    compiled = tj.jit(counted_behind_a_list)
    for size in (10, 7, 30):
        x = np.linspace(0.5, 2, size)
        np.testing.assert_allclose(compiled(x), counted_behind_a_list(x))
        assert not KEPT


class Phase:
    t = 1


def test_a_class_attribute_that_is_set_back_to_what_it_was_before_the_call():
    def counted(x: Any) -> Any:
        Phase.t = 0
        s = 0.0
        for v in x:
            Phase.t += 1
            s = s + v * Phase.t
        return s

    def decided(x: Any) -> Any:
        Phase.t = 0
        if x[0] > 100:
            Phase.t = 1
        return x * Phase.t

    Phase.t = 1
    assert tj.jit(counted)(np.ones(9)) == 45
    Phase.t = 1
    with pytest.raises(TracejitError, match="changes the attribute 't' of the class Phase"):
        tj.jit(decided)(np.ones(9))


def test_np_nditer_moves():
    def f(x: Any) -> Any:
        it = np.nditer(np.array([1.0, 1.0, 2.0] * 5))
        s = 0.0
        for v in x:
            s = s + v * float(next(it))  # type: ignore[arg-type]
        return s

    x = np.linspace(1, 2, 9)
    np.testing.assert_allclose(tj.jit(f)(x), f(x))


def test_what_an_abandoned_trace_of_a_body_has_made_is_gone():
    def f(x: Any) -> Any:
        o: Any = Box()
        o.n = 0
        ns: Any = types.SimpleNamespace()
        s = x[0] * 0
        for v in x:
            o.n += 1
            if not hasattr(ns, "k"):
                ns.k = [0]
            ns.k[0] += 1
            TABLE.setdefault("k", [0])[0] += 1
            s = s + v * ns.k[0] * TABLE["k"][0]
        del TABLE["k"]
        return s, o.n

    TABLE.clear()
    compiled = tj.jit(f)
    for size in (10, 7, 40):
        x = np.linspace(1, 2, size)
        np.testing.assert_allclose(compiled(x), f(x))
