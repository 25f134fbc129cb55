"""What a function reads outside is what Python reads there, and what it leaves there is what Python leaves."""

import contextlib
import contextvars
import ctypes
import functools
import importlib
import inspect
import io
import itertools
import os
import queue
import sys
import threading
import types
import unittest.mock
import warnings
import weakref
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError
from tracejit.tracer.captured import MOST_ITEMS

X = np.arange(3.0)


def follows(function: Callable[..., Any], *changes: Callable[[], Any]) -> Any:
    """The compiled function gives what the function gives, before and after each change; every call is made twice."""
    compiled = tj.jit(function)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            np.testing.assert_array_equal(compiled(X), function(X))
    return compiled


# -- reading -----------------------------------------------------------------------------------------------------------
class Config:
    alpha = 2.0
    w = np.ones(3)
    layers = [1.0, 2.0]  # noqa: RUF012

    class Inner:
        beta = 1.0


class Derived(Config):
    pass


def test_classes_read_by_name_are_followed(monkeypatch: pytest.MonkeyPatch):
    def f(x):
        return x * Config.alpha + Config.w * Config.Inner.beta + Derived.alpha + sum(Config.layers)

    compiled = follows(
        f,
        lambda: monkeypatch.setattr(Config, "alpha", 3.0),
        lambda: monkeypatch.setattr(Config, "w", np.full(3, 4.0)),
        lambda: Config.w.fill(5),
        lambda: monkeypatch.setattr(Config.Inner, "beta", 7.0),
        lambda: monkeypatch.setattr(Derived, "alpha", 9.0, raising=False),
        lambda: monkeypatch.setattr(Config, "layers", [4.0]),
    )
    assert compiled.compilations == 5  # arrays of one kind take each other's place
    assert type(vars(Config)["alpha"]) is float
    assert "__getattribute__" not in vars(Config)


def weighted(items: Any) -> float:
    return sum((n + 1) * float(x) for n, x in enumerate(items))


CONTAINERS: list[Any] = [
    (defaultdict(float, a=1.0), lambda c: weighted(c.values()), lambda c: c.update(a=2.0), lambda c: c.update(b=5.0)),
    (OrderedDict(a=1.0, b=2.0), lambda c: weighted(c.values()), lambda c: c.move_to_end("a"), lambda c: c.popitem()),
    (Counter("aab"), lambda c: c["a"] + c["z"], lambda c: c.update("a"), lambda c: c.update("z")),
    (deque([1.0, 2.0]), weighted, lambda c: c.append(3.0), lambda c: c.rotate(), lambda c: c.__setitem__(0, 9.0)),
    ({1, 2}, lambda c: float(sum(c)), lambda c: c.add(5), lambda c: (c.discard(1), c.add(7))),
    (type("Own", (list,), {})([1.0]), weighted, lambda c: c.append(3.0), lambda c: c.__setitem__(0, 4.0)),
    (type("Own", (dict,), {})(a=1.0), lambda c: weighted(c.values()), lambda c: c.update(a=3.0)),
    (UserDict(a=1.0), lambda c: c["a"], lambda c: c.update(a=3.0)),
    (types.MappingProxyType(CHANGED := {"a": 1.0}), lambda c: c["a"], lambda c: CHANGED.update(a=3.0)),
    (bytearray(b"ab"), lambda c: float(c[0]), lambda c: c.__setitem__(0, 3)),
    (
        {n: float(n) for n in range(1000)},
        lambda c: c[700],
        lambda c: c.update({700: 3.0}),
        lambda c: c.update({5000: 1.0}),
    ),
    (
        [float(n) for n in range(1000)],
        lambda c: c[700] + len(c),
        lambda c: c.__setitem__(700, 1.0),
        lambda c: c.append(1.0),
    ),
    ([[[[[[[[1.0]]]]]]]], lambda c: c[0][0][0][0][0][0][0][0], lambda c: c[0][0][0][0][0][0][0].__setitem__(0, 2.0)),
    ({"a": 1.0, "b": 2.0}, lambda c: weighted(c.values()), lambda c: c.update(a=c.pop("a"))),
]


@pytest.mark.parametrize("number", range(len(CONTAINERS)))
def test_containers_of_every_class_size_and_depth_are_followed(number: int):
    container, read, *changes = CONTAINERS[number]
    follows(lambda x: x + read(container), *[functools.partial(change, container) for change in changes])


@pytest.mark.parametrize("size", [3, 200, 20_000, 100_000])
def test_an_array_that_decides_is_compared_whatever_its_size(size: int):
    table = np.zeros(size)
    compiled = follows(
        lambda x: x + 1 if table[-1] > 0 else x, lambda: table.__setitem__(-1, 1), lambda: table.__setitem__(-1, 0)
    )
    assert compiled.compilations == 3
    strided = np.zeros(2 * size)[::2]
    follows(lambda x: x + 1 if strided[1] > 0 else x, lambda: strided.__setitem__(1, 1))


def test_what_is_too_large_to_compare_is_said_once_with_the_line():
    table, items = np.zeros(1 << 18), [1.0] * (MOST_ITEMS + 1)

    def f(x):
        return x + (1 if table[5] > 0 else items[3])

    def g(x):
        return x + items[0]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = tj.jit(f)
        compiled(X)
        compiled(np.ones(5))
        compiled(np.ones(5, np.float32))
        tj.jit(g)(X)
    texts = [str(w.message) for w in caught]
    told = "an array f64[262144] from outside, whose values decide here, is taken for a constant"
    assert len([t for t in texts if t.startswith(told)]) == 1
    assert any(
        t.startswith("a list of 65537 items in 'items' of an enclosing function is taken for a constant") for t in texts
    )
    assert all(w.filename == __file__ for w in caught)


@pytest.mark.parametrize(
    ("make", "use", "what"),
    [
        (lambda: iter([1.0, 2.0]), next, "where a list_iterator"),
        (lambda: (x for x in (1.0, 2.0)), next, "where a generator"),
        (itertools.count, next, "where an itertools.count"),
        (io.StringIO, lambda s: len(s.getvalue()), "what is in a _io.StringIO"),
        (queue.Queue, lambda q: q.qsize(), "what is in a queue.Queue"),
        (threading.local, lambda x: getattr(x, "n", 1.0), "what is in a _thread._local"),
        (lambda: contextvars.ContextVar("n", default=1.0), lambda v: v.get(), "what is in a _contextvars.ContextVar"),
        (lambda: weakref.ref(X), lambda r: len(r()), "what is in a weakref.ReferenceType"),
        (lambda: ValueError([1]), lambda e: len(e.args[0]), "what is in the args of a ValueError"),
    ],
)
def test_state_that_cannot_be_followed_is_warned_of(make: Callable[[], Any], use: Callable[[Any], Any], what: str):
    held = make()
    with pytest.warns(UserWarning, match=f"^{what} from outside (stands )?is not followed"):
        tj.jit(lambda x: x + use(held))(X)


def test_what_has_no_state_that_counts_is_not_warned_of():
    lock, out = threading.Lock(), sys.stderr

    def f(x):
        with lock:
            print("traced", file=out)
            return x + sum(a * b for a, b in zip([1, 2], [3, 4], strict=True)) + next(iter([1]))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tj.jit(f)(X)


class Slotted(list[float]):
    __slots__ = ("note",)


@pytest.mark.parametrize("kind", [list, deque, Slotted])
@pytest.mark.parametrize("length", [3, MOST_ITEMS + 1])
@pytest.mark.filterwarnings("ignore:a (list|deque|Slotted) of:UserWarning")
def test_what_a_function_appends_is_there_once_if_its_trace_starts_again(kind: Callable[..., Any], length: int):
    def program():
        held = kind([1.0] * length)

        def f(x):
            held.append(1.0)
            if x.shape[0] == 3:  # the trace for every size starts again
                return x * 2
            return x + len(held)

        return f, held

    (plain, expected), (traced, held) = program(), program()
    compiled = tj.jit(traced)
    for n in (2, 7, 3, 5, 9, 9, 3, 1):
        np.testing.assert_array_equal(compiled(np.ones(n)), plain(np.ones(n)))
        assert held == expected


class Model:
    scale = 2.0

    def __init__(self, k: float) -> None:
        self.k = k

    def run(self, x):
        return x * self.k

    @property
    def bias(self):
        return self.k + self.scale

    @staticmethod
    def static(x):
        return x + 1

    def __getitem__(self, n):
        return n * self.k


def test_methods_and_properties_bound_anew_are_followed(monkeypatch: pytest.MonkeyPatch):
    model = Model(3.0)
    follows(
        lambda x: model.run(x) + model.bias + model.static(x) + Model.static(x) + model[2],
        lambda: monkeypatch.setattr(Model, "run", lambda self, x: x - self.k),
        lambda: monkeypatch.setattr(Model, "bias", property(lambda self: 7.0)),
        lambda: monkeypatch.setattr(Model, "static", staticmethod(lambda x: x * 5)),
        lambda: monkeypatch.setattr(Model, "__getitem__", lambda self, n: 100.0),
        lambda: setattr(model, "run", lambda x: x * 9),
        lambda: delattr(model, "run"),
        lambda: setattr(model, "scale", 4.0),
        lambda: setattr(model, "__class__", type("Other", (Model,), {"run": lambda self, x: x * 0})),
    )


class Registered:
    """Keeps its attributes in a dict of its own, as modules of neural networks do."""

    def __init__(self) -> None:
        object.__setattr__(self, "_own", {})
        self.w, self.k = np.ones(3), 2.0

    def __setattr__(self, name, value):
        self._own[name] = value

    def __getattr__(self, name):
        try:
            return object.__getattribute__(self, "_own")[name]
        except KeyError:
            raise AttributeError(name) from None

    def __call__(self, x):
        return x * (self.w * self.w) * self.k


def test_attributes_that_getattr_makes_are_followed():
    module = Registered()
    compiled = follows(
        lambda x: module(x),
        lambda: setattr(module, "w", np.full(3, 4.0)),
        lambda: module.w.fill(6.0),
        lambda: setattr(module, "k", 5.0),
        lambda: setattr(module, "other", 5.0),
    )
    assert compiled.compilations == 3
    assert Registered.__getattr__.__qualname__ == "Registered.__getattr__"


def test_what_a_function_holds_is_followed():
    def helper(x, k=1.0, *, m=2.0):
        return x * k + m + helper.extra

    helper.extra = 3.0
    part = functools.partial(helper, m=4.0)
    other = functools.partial(helper, k=[1.0])

    def change_code() -> None:
        helper.__code__ = (lambda x, k=0.0, *, m=0.0: x - k - m + len(helper.__dict__)).__code__  # type: ignore[attr-defined]

    follows(
        lambda x: helper(x) + part(x) + sum(other.keywords["k"]),
        lambda: setattr(helper, "__defaults__", (5.0,)),
        lambda: setattr(helper, "__kwdefaults__", {"m": 6.0}),
        lambda: helper.__kwdefaults__.update(m=7.0),
        lambda: setattr(helper, "extra", 8.0),
        lambda: part.keywords.update(m=9.0),
        lambda: other.keywords["k"].append(1.0),
    )
    follows(lambda x: part(x), lambda: setattr(helper, "__defaults__", (11.0,)))


def test_defaults_that_are_equal_but_not_the_same_are_told_apart():
    def f(x, k=1):
        return np.asarray(x) * k

    compiled = tj.jit(f)
    ints = np.arange(3)
    assert compiled(ints).dtype == np.int64
    f.__defaults__ = (1.0,)
    assert compiled(ints).dtype == np.float64


@dataclass
class Record:
    a: float
    items: list[float]


class Pair(NamedTuple):
    a: float
    items: list[float]


class Mode(Enum):
    FAST = [1.0]  # noqa: RUF012


class Weights(Enum):
    FIRST = np.zeros(3)


def test_fields_of_records_tuples_and_enumerations_are_followed():
    record, pair = Record(1.0, [2.0]), Pair(1.0, [2.0])
    follows(
        lambda x: x * record.a + record.items[0] + pair.items[0] + Mode.FAST.value[0] + Weights.FIRST.value,
        lambda: setattr(record, "a", 4.0),
        lambda: record.items.__setitem__(0, 5.0),
        lambda: pair.items.__setitem__(0, 6.0),
        lambda: Mode.FAST.value.__setitem__(0, 7.0),
        lambda: Weights.FIRST.value.fill(8.0),
    )


def test_variables_of_the_environment_are_followed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TRACEJIT_TEST", raising=False)

    def f(x):
        k = float(os.environ.get("TRACEJIT_TEST", "1")) + float(os.getenv("TRACEJIT_TEST", "2"))
        return x * k if "TRACEJIT_TEST" in os.environ else x - k

    compiled = follows(
        f,
        lambda: monkeypatch.setenv("TRACEJIT_TEST", "3"),
        lambda: monkeypatch.setenv("TRACEJIT_TEST", "4"),
        lambda: monkeypatch.delenv("TRACEJIT_TEST"),
    )
    before = compiled.compilations
    monkeypatch.setenv("TRACEJIT_OTHER", "3")
    compiled(X)
    assert compiled.compilations == before


def test_what_is_not_there_yet_is_followed(monkeypatch: pytest.MonkeyPatch):
    model = Model(1.0)
    module: Any = types.ModuleType("module_of_the_test")
    table: dict[str, float] = {}
    follows(
        lambda x: (
            x
            + getattr(model, "new", 1.0)
            + getattr(Model, "extra", 2.0)
            + getattr(module, "k", 3.0)
            + table.get("a", 4.0)
        ),
        lambda: setattr(model, "new", 5.0),
        lambda: monkeypatch.setattr(Model, "extra", 6.0, raising=False),
        lambda: setattr(module, "k", 7.0),
        lambda: table.update(a=8.0),
        lambda: delattr(model, "new"),
    )


def test_an_array_of_rank_0_outside_is_an_array_to_isinstance():
    a = np.array(2.0)
    follows(lambda x: x + (1.0 if isinstance(a, np.ndarray) else 2.0) + (1.0 if isinstance(a, float) else 2.0))


# -- changing ----------------------------------------------------------------------------------------------------------
class Solver:
    factor = 1.0

    def __init__(self) -> None:
        self.w, self.calls, self.cache, self.log, self.scratch, self.lazy = np.ones(3), 0, {}, [], None, None

    @functools.cached_property
    def table(self):
        return self.w * 2 + np.arange(3.0)

    @functools.cache  # noqa: B019
    def power(self, n):
        return self.w * 0 + np.arange(3.0) ** n


def eager_and_compiled(function: Callable[[Any, Any], Any], calls: int = 3) -> tuple[Any, Any, Any]:
    """Both give the same for a solver of their own, and leave the same in it."""
    one, two = Solver(), Solver()
    compiled = tj.jit(lambda x: function(two, x))
    for n in range(calls):
        np.testing.assert_array_equal(compiled(X + n), function(one, X + n))
        assert repr(vars(one)) == repr(vars(two))
        if n == 0:
            one.w, two.w = np.full(3, 5.0), np.full(3, 5.0)
    return one, two, compiled


@pytest.mark.filterwarnings("ignore:.*times anew")
def test_a_counter_counts_and_a_log_grows_at_every_call():
    def f(s, x):
        s.calls += 1
        s.log.append(len(s.log))
        return x * s.calls

    _, _, compiled = eager_and_compiled(f, 4)
    assert compiled.compilations == 4


@pytest.mark.parametrize("how", ["dict", "attribute", "getattr", "list", "nested"])
def test_a_cache_that_is_filled_while_tracing_holds_arrays(how: str):
    def f(s, x):
        n = len(x)
        if how == "dict":
            if n not in s.cache:
                s.cache[n] = s.w * np.arange(3.0)
            return x * s.cache[n]
        if how == "attribute":
            if s.lazy is None:
                s.lazy = np.exp(np.zeros(n)) * s.w
            return x * s.lazy
        if how == "getattr":
            if not hasattr(s, "made"):
                s.made = np.ones(n) + s.w
            return x * s.made
        if how == "list":
            if not s.log:
                s.log.extend([np.ones(n), 2.0])
            return x * s.log[0] + s.log[1]
        if n not in s.cache:
            s.cache[n] = ([np.ones(n)], {"k": np.zeros(n)})
        return x * s.cache[n][0][0] + s.cache[n][1]["k"]

    one, two, compiled = eager_and_compiled(f, 4)
    assert compiled.compilations == 2  # for the empty cache and the full one
    two.cache.clear()
    one.cache.clear()
    np.testing.assert_array_equal(compiled(X), f(one, X))


def test_cached_properties_and_functions_keep_what_python_keeps():
    def f(s, x):
        return x * s.table + s.power(2)

    _, two, compiled = eager_and_compiled(f)
    assert type(two.table) is np.ndarray
    assert compiled.compilations == 1
    two.table = np.zeros(3)
    np.testing.assert_array_equal(compiled(X), two.power(2))
    del two.table
    np.testing.assert_array_equal(compiled(X), f(two, X))
    Solver.power.cache_clear()
    np.testing.assert_array_equal(compiled(X), f(two, X))


def store_attribute(s, x):
    s.calls = 7
    s.scratch = x * 2
    return x


def store_item(s, x):
    s.cache["k"] = x * 2
    return x


def store_in_list(s, x):
    s.log.append((1, [x * 2]))
    return x


def store_object(s, x):
    made = Record(1.0, [])
    made.items.append(x * 2)
    s.cache["k"] = made
    return x


def store_in_class(s, x):
    type(s).factor = x * 2
    return x


def store_by_method_of_the_list(s, x):
    add = s.log.append
    add(x * 2)
    return x


def store_in_dict_of_object(s, x):
    vars(s)["scratch"] = x * 2
    return x


@pytest.mark.parametrize(
    "store",
    [
        store_attribute,
        store_item,
        store_in_list,
        store_object,
        store_in_class,
        store_by_method_of_the_list,
        store_in_dict_of_object,
    ],
)
def test_a_traced_array_that_would_stay_is_refused_with_its_line_and_nothing_has_changed(store: Any):
    solver = Solver()
    before = repr(vars(solver))
    with pytest.raises(
        UnsupportedError, match=r"is stored outside of the traced function, in .*return the array"
    ) as caught:
        tj.jit(lambda x: store(solver, x))(X)
    assert "x * 2" in str(caught.value) or "s.scratch" in str(caught.value)
    assert repr(vars(solver)) == before
    assert Solver.factor == 1.0


def test_a_variable_of_an_enclosing_function_that_would_keep_a_traced_array_is_refused():
    last = None

    def f(x):
        nonlocal last
        last = x * 2
        return x

    with pytest.raises(UnsupportedError, match="in 'last' of an enclosing function"):
        tj.jit(f)(X)
    assert last is None


def test_what_is_used_and_put_back_within_a_call_may_hold_traced_arrays():
    def f(s, x):
        s.scratch = x * 2
        s.log.append(x)
        total = s.scratch + s.log.pop()
        s.scratch = None
        return total

    _, _, compiled = eager_and_compiled(f)
    assert compiled.compilations == 1


def test_a_trace_that_starts_again_changes_things_once():
    def f(s, x, n):
        s.log.append(n)
        s.calls += 1
        return x * sum(range(n))  # needs the value of n

    solver = Solver()
    compiled = tj.jit(lambda x, n: f(solver, x, n))
    np.testing.assert_array_equal(compiled(X, 3), X * 3)
    assert (solver.log, solver.calls) == ([3], 1)


def test_changes_before_an_exception_stay_as_in_python():
    def f(s, x):
        s.log.append(1)
        s.lazy = x
        s.cache["n"] = np.ones(2)
        raise KeyError("of the user")

    solver = Solver()
    with pytest.raises(KeyError, match="of the user"):
        tj.jit(lambda x: f(solver, x))(X)
    assert solver.log == [1]
    assert solver.lazy is None  # no traced array stays
    assert type(solver.cache["n"]) is np.ndarray


def test_changes_of_another_thread_are_not_lost():
    results: dict[str, int] = {"a": 1}
    log = [1]

    def other() -> None:
        results["other"] = 2
        log.append(3)

    def f(x):
        results["mine"] = 5
        log.append(2)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return x

    run = types.MethodType(lambda _: original(), 0)
    original = functools.partial(exec, "other()", {"other": other})
    tj.jit(f)(X)
    assert results == {"a": 1, "other": 2, "mine": 5}
    assert sorted(log) == [1, 2, 3]


class Scaled:
    """A descriptor of the user's: CPython calls its `__get__` without binding it."""

    factor = 2.0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else instance.value * self.factor

    def __set__(self, instance: Any, value: Any) -> None:
        instance.value = value / self.factor


class Scales:
    size = Scaled()

    def __init__(self) -> None:
        self.value = 1.0


def test_descriptors_of_the_user_are_followed(monkeypatch: pytest.MonkeyPatch):
    scales = Scales()
    f = tj.jit(lambda x: x * scales.size)
    np.testing.assert_array_equal(f(X), X * 2)
    scales.size = 6.0
    np.testing.assert_array_equal(f(X), X * 6)
    monkeypatch.setattr(Scaled, "factor", 3.0)
    np.testing.assert_array_equal(f(X), X * 9)
    monkeypatch.setattr(Scaled, "__get__", lambda self, instance, owner=None: 7.0)
    np.testing.assert_array_equal(f(X), X * 7)

    def g(x):
        scales.size = 12.0
        return x * scales.size

    monkeypatch.undo()
    np.testing.assert_array_equal(tj.jit(g)(X), X * 12)
    assert scales.value == 6.0


class Setting:
    """A descriptor that holds its value itself."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.value * 2

    def __set__(self, instance: Any, value: Any) -> None:
        self.value = value


class Settings(Setting):
    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return super().__get__(instance, owner) + instance.shift


def test_what_a_descriptor_reads_of_itself_is_followed():
    class Model:
        rate = Setting(3.0)
        more = Settings(1.0)
        shift = 0.5

    model = Model()
    f = tj.jit(lambda x: x * model.rate + model.more)
    held = vars(Model)["more"]
    np.testing.assert_array_equal(f(X), X * 6 + 2.5)
    model.rate = 10.0
    np.testing.assert_array_equal(f(X), X * 20 + 2.5)
    held.value = 2.0
    np.testing.assert_array_equal(f(X), X * 20 + 4.5)
    model.shift = 1.0
    np.testing.assert_array_equal(f(X), X * 20 + 5)
    model.rate = X * 2
    np.testing.assert_array_equal(f(X), X * X * 4 + 5)
    model.rate[0] = 7.0
    np.testing.assert_array_equal(f(X), X * (2 * model.rate) / 2 + 5)


def test_classes_of_code_that_runs_under_no_name_are_the_users():
    scope: dict[str, Any] = {}
    exec("class Box:\n    def __init__(self): self.v = 3\nbox = Box()\ndef f(x): return x * box.v", scope)
    f = tj.jit(scope["f"])
    np.testing.assert_array_equal(f(X), X * 3)
    scope["box"].v = 5
    np.testing.assert_array_equal(f(X), X * 5)


def test_functions_that_are_stored_are_the_users():
    registry: dict[str, Any] = {}

    def helper(x):
        return x + 1

    def f(x):
        registry["helper"] = helper
        return helper(x)

    tj.jit(f)(X)
    assert registry["helper"] is helper


def test_nothing_is_warned_of_where_all_is_followed():
    model = Model(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tj.jit(lambda x: model.run(x) + Config.alpha)(X)


PACKAGE = """
import numpy as np
class Estimator:
    def __init__(self): self.coef, self.k = np.ones(3), 2.0
    def predict(self, x): return x * self.coef
class Table(Estimator):
    def __getitem__(self, name): return self.coef
class Slots:
    __slots__ = ("coef", "k")
    def __init__(self): self.coef, self.k = np.ones(3), 2.0
class Narrow(Slots):
    __slots__ = ()
"""


def test_objects_of_installed_packages_are_followed_where_the_users_code_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "an_installed_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    package = importlib.import_module("an_installed_package")
    one = package.Estimator()
    compiled = follows(
        lambda x: x * (one.coef * one.coef) + one.k,
        lambda: setattr(one, "coef", np.full(3, 3.0)),
        lambda: one.coef.fill(4.0),
        lambda: setattr(one, "k", 5.0),
        lambda: setattr(one, "__dict__", {"coef": np.ones(3), "k": 7.0}),
    )
    assert compiled.compilations == 3
    assert "__getattribute__" not in vars(package.Estimator)

    def store(x):
        one.coef = x * 2
        return x

    with pytest.raises(UnsupportedError, match="in the attribute 'coef' of a Estimator"):
        tj.jit(store)(X)
    assert one.coef.tolist() == [1, 1, 1]
    slots = package.Narrow()
    follows(
        lambda x: x * slots.coef[0] + slots.coef.sum() + np.mean(slots.coef) * slots.k,
        lambda: setattr(slots, "coef", np.full(3, 3.0)),
        lambda: slots.coef.fill(4.0),
        lambda: setattr(slots, "k", 5.0),
    )
    polynomial = np.polynomial.Polynomial([1.0, 2.0])
    follows(
        lambda x: x * polynomial.coef[0] + polynomial.coef.sum(), lambda: setattr(polynomial, "coef", np.full(2, 3.0))
    )
    table = package.Table()
    with pytest.warns(
        UserWarning, match=r"what is in an object of an_installed_package\.Table from outside is taken for a constant"
    ):
        tj.jit(lambda x: x * table["a"])(X)


def test_a_program_whose_trace_changed_state_is_not_used_again():
    log: list[int] = []
    flags = {"first": True}
    memo: dict[str, float] = {}

    class Counter:
        n = 0
        w: Any = None

    counter = Counter()

    def appends(x: Any) -> Any:
        log.append(1)
        return x * len(log)

    def counts(x: Any) -> Any:
        counter.n += 1
        return x * counter.n

    def first(x: Any) -> Any:
        if flags["first"]:
            flags["first"] = False
            return x * 0
        return x

    def fills(x: Any) -> Any:
        if "w" not in memo:
            memo["w"] = 3.0
        return x * memo["w"]

    def makes(x: Any) -> Any:
        if counter.w is None:
            counter.w = 5.0
        return x * counter.w

    def reset() -> None:
        log.clear()
        memo.clear()
        flags["first"], counter.n, counter.w = True, 0, None

    for f in (appends, counts, first, fills, makes):
        jitted = tj.jit(f)
        for calls in (1, 3, 1, 2):
            outcomes: list[Any] = []
            for g in (f, jitted):
                reset()
                outcomes.append([g(X).tolist() for _ in range(calls)])
                outcomes[-1] += [list(log), dict(flags), dict(memo), counter.n, counter.w]
            assert outcomes[0] == outcomes[1], f.__name__
        reset()


def test_a_cache_is_filled_once():
    memo: dict[int, Any] = {}

    def f(x: Any) -> Any:
        if x.ndim not in memo:
            memo[x.ndim] = 2.0
        return x * memo[x.ndim]

    jitted = tj.jit(f)
    for _ in range(5):
        jitted(X)
    assert jitted.compilations == 2


def test_names_that_do_not_exist_yet():
    namespace: dict[str, Any] = {}
    exec("def f(x):\n    try:\n        return x * later\n    except NameError:\n        return x\n", namespace)
    jitted = tj.jit(namespace["f"])
    assert jitted(X).tolist() == X.tolist()
    namespace["later"] = 3.0
    assert jitted(X).tolist() == (3 * X).tolist()
    del namespace["later"]
    assert jitted(X).tolist() == X.tolist()


SCALE = 2.0
VALUES = {"a": 2.0}


def test_what_attribute_protocols_of_the_user_read():
    global SCALE

    class Found:
        def __getattr__(self, name: str) -> float:
            return VALUES[name] * SCALE

    class Doubled:
        a = 1.0

        def __getattribute__(self, name: str) -> Any:
            value = object.__getattribute__(self, name)
            return value * 2 * SCALE if name == "a" else value

    found, doubled = Found(), Doubled()
    module = types.ModuleType("made")
    module.d = {"k": 2.0}
    module.__getattr__ = lambda name: module.d[name]
    for f in (lambda x: x * found.a, lambda x: x * doubled.a, lambda x: x * module.k):
        jitted = tj.jit(f)
        for value in (2.0, 5.0, 7.0):
            VALUES["a"], doubled.a, module.d["k"] = value, value, value
            assert jitted(X).tolist() == f(X).tolist()
        SCALE = 3.0
        assert jitted(X).tolist() == f(X).tolist()
        SCALE = 2.0


def test_functions_that_the_standard_library_wraps():
    global SCALE

    @contextlib.contextmanager
    def scaled() -> Any:
        yield SCALE

    @functools.singledispatch
    def kind(x: Any) -> float:
        return 0.0

    kind.register(np.ndarray, lambda x: 2.0 * SCALE)
    kind.register(int, lambda x: 3.0)
    kind.register(np.floating, lambda x: 5.0)

    def manages(x: Any, n: int) -> Any:
        with scaled() as k:
            return x * k

    def dispatches(x: Any, n: int) -> Any:
        return x * kind(x) * kind(n) * kind(x[0])

    for f in (manages, dispatches):
        jitted = tj.jit(f)
        for value in (2.0, 3.0):
            SCALE = value
            assert jitted(X, 4).tolist() == f(X, 4).tolist()
    SCALE = 2.0


class Itself(dict[str, Any]):
    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


class Items(dict[str, Any]):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Itself, Items])
def test_dicts_whose_keys_are_attributes(kind: Any):
    config = kind(k=2.0, z=1.0)
    forms = (
        lambda x: x * config.k,
        lambda x: x * config["k"] + len(config),
        lambda x: x * sum(config.values()) + len(list(config)),
    )
    for f in forms:
        jitted = tj.jit(f)
        for value in (2.0, 5.0):
            config.k = value
            assert jitted(X).tolist() == f(X).tolist()
    assert sorted(config) == ["k", "z"]


def test_a_cached_function_keeps_no_traced_number():
    @functools.lru_cache(None)
    def twice(v: float) -> float:
        return v * 2

    jitted = tj.jit(lambda a: twice(np.array([a, 1, a])[0]))
    assert jitted(3.0) == 6
    assert twice(3.0) == 6
    assert jitted(4.0) == 8


def test_arrays_that_are_made_by_the_users_own_classes():
    class Wrapped:
        def __init__(self, a: Any) -> None:
            self.a = a

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.asarray(self.a, dtype)

    class Reflected:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> Any:
            return other + 100

        def __rmul__(self, other: Any) -> Any:
            return other * 10

    wrapped, reflected = Wrapped(np.array([1.0, 2.0, 3.0])), Reflected()
    forms = (
        lambda x: x + np.asarray(wrapped),
        lambda x: x * wrapped,
        lambda x: np.dot(x, wrapped),
        lambda x: x * reflected + reflected,
    )
    for f in forms:
        jitted = tj.jit(f)
        for value in (1.0, 4.0):
            wrapped.a = np.array([value, 2.0, 3.0])
            assert jitted(X).tolist() == f(X).tolist()


def test_a_modules_dict():
    module = types.ModuleType("with_a_dict")
    forms: list[Callable[[Any], Any]] = [
        lambda x: x * module.__dict__["k"], lambda x: x * vars(module)["k"], lambda x: x * module.__dict__.get("k"),
        lambda x: x * vars(module)["w"], lambda x: x * (1 if "other" in vars(module) else 2),
        lambda x: x * ("other" in globals()),
    ]  # fmt: skip
    for f in forms:
        module.k, module.w = 2.0, np.ones(3)
        jitted = tj.jit(f)
        assert jitted(X).tolist() == f(X).tolist()
        module.k, module.w, module.other = 5.0, np.full(3, 5.0), 1
        assert jitted(X).tolist() == f(X).tolist()
        del module.other
        assert jitted(X).tolist() == f(X).tolist()


def _of_subclasses(tmp_path: Any) -> dict[str, Any]:
    mapped = np.memmap(tmp_path / "m.bin", dtype="f8", mode="w+", shape=(4,))
    mapped[:] = [1, 2, 3, 4]
    own = type("Own", (np.ndarray,), {})
    return {
        "memmap": mapped,
        "masked": np.ma.MaskedArray([1.0, 2, 3, 4], mask=[0, 1, 0, 0]),
        "own": np.arange(1.0, 5).view(own),
    }


READ_OF_SUBCLASSES: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, m: x * m.sum(), "element": lambda x, m: x * m[0], "float": lambda x, m: x * float(m.max()),
    "mean": lambda x, m: x * np.mean(m), "array": lambda x, m: x + np.array(m).ravel(),
    "branch": lambda x, m: x if m.min() > 2 else -x,
    "tolist": lambda x, m: x + np.array(m.tolist(),
    dtype=float).ravel() if not np.ma.isMaskedArray(m) else x * m.count(),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["memmap", "masked", "own"])
@pytest.mark.parametrize("name", READ_OF_SUBCLASSES)
def test_captured_arrays_of_subclasses_are_read_at_each_call(tmp_path: Any, kind: str, name: str):
    m, read, x = _of_subclasses(tmp_path)[kind], READ_OF_SUBCLASSES[name], np.arange(4.0)

    def f(x: Any) -> Any:
        return read(x, m)

    g = tj.jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(g(x)), np.asarray(f(x)))
        m += 1
    if kind == "masked":
        m.mask[2] = True
        np.testing.assert_array_equal(np.asarray(g(x)), np.asarray(f(x)))
    if kind == "memmap" and name not in ("branch", "tolist"):
        assert g.compilations == 1  # it is an array like others


def test_modules_imported_within_the_function(monkeypatch: pytest.MonkeyPatch):
    def module(k: float) -> None:
        made: Any = types.ModuleType("a_module_of_the_users")
        made.k = k
        monkeypatch.setitem(sys.modules, "a_module_of_the_users", made)

    def change(k: float) -> None:
        sys.modules["a_module_of_the_users"].k = k  # type: ignore[attr-defined]

    def whole(x):
        import a_module_of_the_users

        return x * a_module_of_the_users.k

    def member(x):
        from a_module_of_the_users import k

        return x * k

    def optional(x):
        try:
            from a_module_of_the_users import k
        except ImportError:
            k = -1
        return x * k

    def by_name(x):
        return x * importlib.import_module("a_module_of_the_users").k

    for function in (whole, member, by_name, optional):
        module(1.0)
        follows(function, lambda: module(2.0), lambda: change(3.0), lambda: module(4.0))
    follows(optional, lambda: sys.modules.pop("a_module_of_the_users"), lambda: module(5.0))


class Delegates:
    def __init__(self, to: Any) -> None:
        object.__setattr__(self, "_to", to)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_to"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(object.__getattribute__(self, "_to"), name, value)


def test_what_is_read_past_a_class_is_followed():
    model = Model(2.0)
    proxy = Delegates(model)
    model.w = np.ones(3)  # type: ignore[attr-defined]
    changes = (
        lambda: setattr(model, "scale", 4.0),
        lambda: model.w.fill(5.0),  # type: ignore[attr-defined]
        lambda: setattr(proxy, "scale", 7.0),
        lambda: setattr(model, "w", np.full(3, 2.0)),
    )
    follows(lambda x: x * proxy.scale + proxy.w, *changes)
    follows(lambda x: x * object.__getattribute__(model, "scale") + object.__getattribute__(model, "w")[0], *changes)

    def store(x):
        proxy.scale = x * 2
        return x

    with pytest.raises(UnsupportedError, match="is stored outside of the traced function"):
        tj.jit(store)(X)
    assert model.scale == 7.0
    assert tj.jit(lambda x: x if isinstance(object(), object) and type(object()) is object else 0)(1.0) == 1.0


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("n", ctypes.c_int))


def test_numbers_and_structures_of_ctypes_are_followed():
    point, number = Point(1.0, 2), ctypes.c_double(3.0)
    follows(
        lambda x: x * point.x + point.n * number.value,
        lambda: setattr(point, "x", 5.0),
        lambda: setattr(point, "n", 7),
        lambda: setattr(number, "value", 11.0),
    )
    assert Point(4.0, 1).x == 4.0


def test_bound_methods_of_arrays_are_followed():
    w, matrix = np.ones(3), np.eye(3)
    total, held = w.sum, {"mean": w.mean}
    model = Model(1.0)
    model.product = matrix.dot  # type: ignore[attr-defined]
    follows(
        lambda x: x * total() + held["mean"]() + model.product(x),  # type: ignore[attr-defined]
        lambda: w.fill(3.0),
        lambda: matrix.fill(2.0),
        lambda: setattr(model, "product", np.ones((3, 3)).dot),
    )


def refusing(*names: str) -> type:
    """A class whose own class has properties of these names."""
    return type("Meta", (type,), {name: property(lambda self: 1) for name in names})


def unusual_classes() -> list[type]:
    class Union(ctypes.Union):
        pass

    class Proxy:
        @property
        def __class__(self) -> type:  # type: ignore[override]
            return int

    class Named:
        @property
        def __name__(self) -> str:
            return "named"

    class Typed(metaclass=refusing("run", "rate")):
        rate = 3.0

        def run(self) -> float:
            return self.rate

    return [Point, Union, Proxy, Named, Typed]


@pytest.mark.parametrize("number", range(5))
def test_classes_whose_own_class_refuses_what_is_put_into_them(number: int):
    kind = unusual_classes()[number]
    before = dict(vars(kind))
    made = kind()
    assert tj.jit(lambda x: x + (made is not None) + (kind is not None))(1.0) == 3.0
    assert dict(vars(kind)) == before


def test_classes_look_the_same_however_often_they_are_traced():
    class Watched:
        def get(self) -> float:
            return 2.0

        @property
        def rate(self) -> float:
            return 3.0

        @classmethod
        def make(cls) -> int:
            return 1

    one = Watched()
    kinds = {name: type(value) for name, value in vars(Watched).items()}
    for k in range(20):
        assert tj.jit(lambda x, k=k: x * one.get() + one.rate + one.make() + k)(1.0) == 6.0 + k
    for name, kind in kinds.items():
        assert isinstance(vars(Watched)[name], kind), name
    assert inspect.isfunction(vars(Watched)["get"])
    found = {a.name: a.kind for a in inspect.classify_class_attrs(Watched)}
    assert (found["get"], found["make"], found["rate"]) == ("method", "class method", "property")


def test_attributes_of_mock_objects_are_followed():
    mock = unittest.mock.Mock(k=2.0, w=np.ones(3))
    follows(lambda x: x * mock.k + mock.w, lambda: setattr(mock, "k", 5.0), lambda: mock.w.fill(4.0))


class Shelf:
    k = 2.0
    n = None
    l = [1, 2]  # noqa: RUF012
    w = np.ones(3)

    def get(self) -> float:
        return 1.0

    @property
    def p(self) -> float:
        return 3.0


def test_what_a_class_holds_is_what_it_holds():
    def counted(held: Any) -> list[Any]:
        return [
            sum(v for v in held.values() if isinstance(v, float)), held["n"] is None, len(held["l"]),
            sum(isinstance(v, property) for v in held.values()),
            [k for k, v in held.items() if k[:1] != "_" and not callable(v)], len(held), "__getattribute__" in held,
        ]  # fmt: skip

    want = counted(vars(Shelf))
    found: list[Any] = []

    def f(x):
        found.append(counted(vars(Shelf)))
        found.append(counted(Shelf.__dict__))
        return x * vars(Shelf)["k"] + Shelf.__dict__["w"]

    tj.jit(f)(X)
    assert found
    assert found == [want] * len(found)
    follows(
        lambda x: x * vars(Shelf)["k"] + Shelf.__dict__["w"] + vars(Shelf)["get"](None),
        lambda: setattr(Shelf, "k", 5.0),
        lambda: Shelf.w.fill(4.0),
        lambda: setattr(Shelf, "w", np.full(3, 7.0)),
        lambda: setattr(Shelf, "get", lambda self: 9.0),
    )
    keep: dict[str, Any] = {}

    def kept(x):
        keep.update({k: v for k, v in vars(Shelf).items() if k in ("k", "l")})
        return x

    tj.jit(kept)(X)
    assert keep == {"k": 5.0, "l": [1, 2]}
    assert type(keep["k"]) is float


# -- which arrays are one
# ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("first", ["a", "b"])
def test_double_buffers(first):
    class Sim:
        def __init__(self):
            self.a, self.b = np.ones(3), np.zeros(3)
            self.now = getattr(self, first)

        def step(self, x):
            other = self.b if self.now is self.a else self.a
            return x + self.now - other

    sim = Sim()
    f = tj.jit(lambda x: sim.step(x))
    for name in "ababba":
        sim.now = getattr(sim, name)
        np.testing.assert_array_equal(f(np.zeros(3)), sim.step(np.zeros(3)))
    assert f.compilations <= 6


def test_arrays_told_apart_by_identity():
    kept = [np.ones(3) * k for k in range(3)]

    def f(x):
        return x + sum({id(w): w for w in kept}.values())

    jitted = tj.jit(f)
    for new in (kept[1], kept[0], np.full(3, 7.0), kept[2], np.full(3, 9.0)):
        kept[1] = new
        np.testing.assert_array_equal(jitted(np.zeros(3)), f(np.zeros(3)))


def test_arrays_that_come_to_share_memory():
    class Holder:
        pass

    held, whole = Holder(), np.arange(3.0)

    def f(x):
        return x + held.a + whole + (1 if np.may_share_memory(held.a, whole) else 0)

    jitted = tj.jit(f)
    for new in (np.arange(3.0), whole[:], np.arange(3.0), whole, whole[::-1]):
        held.a = new
        np.testing.assert_array_equal(jitted(np.zeros(3)), f(np.zeros(3)))


def test_arrays_replaced_at_each_call_do_not_compile_again():
    class Model:
        pass

    model = Model()
    model.weights = [np.full(3, float(k)) for k in range(10)]
    f = tj.jit(lambda x: x + sum(model.weights))
    for _ in range(20):
        model.weights[:] = [w + 1 for w in model.weights]
        np.testing.assert_allclose(f(np.zeros(3)), sum(model.weights))
    assert f.compilations == 1


@dataclass(unsafe_hash=True)
class Layer:
    name: str
    w: Any = field(compare=False)


@pytest.mark.parametrize("seed", range(12))
def test_objects_that_come_to_hold_the_same(seed):
    """As arguments, with an `__eq__` and a `__hash__` of their own that leave out what changes."""
    rng = np.random.default_rng(seed)
    values = [1.0, 2.0, 3, np.ones(3), np.full(3, 2.0), np.ones(3)]
    layers = [Layer("dense", values[n % len(values)]) for n in range(4)]
    f = tj.jit(lambda o, x: x * o.w)
    for _ in range(30):
        layer = layers[rng.integers(len(layers))]
        if rng.random() < 0.5:
            layer.w = values[rng.integers(len(values))]
        np.testing.assert_array_equal(f(layer, np.arange(3.0)), np.arange(3.0) * layer.w)


class Idle:
    pass


class Busy(Idle):
    pass


@pytest.mark.parametrize("ask", [
    lambda o: isinstance(o, Busy), lambda o: type(o) is Idle, lambda o: {Idle: 1, Busy: 2}[type(o)],
    lambda o: issubclass(type(o), Busy), lambda o: len(type(o).__mro__), lambda o: o.__class__ is Idle,
    lambda o: o.__class__.__name__ == "Busy", lambda o: isinstance(o, (int, Busy)),
])  # fmt: skip
def test_objects_that_are_given_another_class_are_followed(ask: Any):
    state, held = Idle(), types.SimpleNamespace(state=Idle())
    follows(
        lambda x: x * ask(state) + 10 * ask(held.state),
        lambda: setattr(state, "__class__", Busy),
        lambda: setattr(held.state, "__class__", Busy),
        lambda: setattr(state, "__class__", Idle),
    )


def test_implementations_registered_later_are_followed():
    @functools.singledispatch
    def scale(value: Any) -> float:
        return 1.0

    class Model:
        @functools.singledispatchmethod
        def scale(self, value: Any) -> float:
            return 1.0

    model, kinds = Model(), ["a", 2]
    follows(
        lambda x: x * scale(kinds[0]) + 10 * scale(kinds[1]) + 100 * model.scale(kinds[0]),
        lambda: scale.register(str, lambda _: 2.0),
        lambda: scale.register(int, lambda _: 3.0),
        lambda: Model.scale.register(str, lambda self, _: 4.0),
    )


def test_attributes_of_unusual_names_are_followed():
    class Model:
        __gain__ = 1.0

        def __init__(self):
            self.__rate__ = 2.0
            self.__table__ = {"k": 3.0}

    model, module, names = Model(), types.ModuleType("settings"), ["__table__"]
    vars(module).update(__file__=__file__, __factor__=1.0)
    follows(
        lambda x: x * Model.__gain__ + model.__rate__ * 10 + getattr(model, names[0])["k"] + module.__factor__,
        lambda: setattr(model, "__rate__", 3.0),
        lambda: setattr(Model, "__gain__", 4.0),
        lambda: model.__table__.update(k=5.0),
        lambda: setattr(model, "__table__", {"k": 6.0}),
        lambda: setattr(model, "__gain__", 7.0),
        lambda: setattr(module, "__factor__", 8.0),
    )

    @tj.jit
    def count(x: Any) -> Any:
        model.__table__["k"] += 1
        return x * model.__table__["k"]

    for n in range(3):
        np.testing.assert_array_equal(count(np.ones(2)), [7.0 + n, 7.0 + n])
        assert model.__table__["k"] == 7.0 + n
