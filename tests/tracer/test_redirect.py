"""Redirected clones: what a traced function finds under its names, and that nothing else is touched."""

import builtins
import copy
import functools
import importlib
import inspect
import math
import math as mathematics
import numbers
import sys
import threading
import traceback
import types
import typing
from collections.abc import Sequence
from functools import partial
from math import *  # noqa: F403 -- a star import is what is tested
from pathlib import Path
from typing import Any

import attrs
import numpy
import numpy as np
import numpy.linalg as la
import pytest
from numpy import float32, ones, pi, zeros, zeros as fresh

import tracejit as tj
from tracejit.support.errors import ConcretizationError, UnsupportedError
from tracejit.tracer.current import current_trace
from tracejit.tracer.namespace import ModuleView, Namespace
from tracejit.tracer.ownership import is_users_function, is_users_module, is_users_type
from tracejit.tracer.redirect import prepared, tracing
from tracejit.tracer.substitution import substitution
from tracejit.tracer.tracer import Tracer

X = np.arange(4.0)
counter = 0


def check(function: Any, *args: Any) -> None:
    """The compiled function gives what NumPy gives, dtype included."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    expected = function(*copies)
    found = tj.jit(function)(*args)
    for e, f in zip(*[x if isinstance(x, tuple) else (x,) for x in (expected, found)], strict=True):
        assert np.asarray(e).dtype == np.asarray(f).dtype
        np.testing.assert_allclose(f, e, rtol=1e-12)


# -- names of NumPy ----------------------------------------------------------------------------------------------------
def by_module(x):
    out = np.zeros(4)
    out[1:] = x[:-1]
    return out


def by_full_name(x):
    out = numpy.empty_like(x)
    out[:] = x + numpy.pi
    return out


def by_member(x):
    out = zeros(4)
    out[0] = x[1] * pi
    return out


def by_renamed_member(x):
    out = fresh((2, 4))
    out[0] = x
    return out + ones(4)


def by_local_import(x):
    import numpy as n
    import numpy.linalg
    from numpy import full, newaxis

    out = full((4, 1), 2.0)
    out[:] = x[:, newaxis]
    return out + n.zeros(4) + numpy.ones(4)


def by_comprehension(x):
    return sum([np.zeros(4) + x * i for i in range(3)]) + sum({k: np.ones(4) * x[k] for k in range(2)}.values())


def by_generator(x):
    def parts():
        for i in range(3):
            part = np.zeros(4)
            part[i] = x[i]
            yield part

    return sum(parts()) + sum(np.ones(4) * v for v in x)


def by_class_body(x):
    class Local:
        scale = np.ones(4)

        def run(self):
            out = np.zeros(4)
            out += x * self.scale
            return out

    return Local().run()


def by_eval(x):
    return eval("x + np.ones(4)") + eval("[np.zeros(4) + x for _ in range(2)]", {"np": np, "x": x})[1]


def by_lambda(x):
    return (lambda y: np.zeros(4) + y)(x)


def by_star(x):
    return sqrt(x[1]) + exp(x[2])  # noqa: F405


def by_math(x):
    return math.sqrt(x[1]) + mathematics.log(x[2]) + math.atan2(x[1], x[3]) + math.log(x[3], 2) + math.hypot(x[1], 2.0)


@pytest.mark.parametrize(
    "function",
    [
        by_module,
        by_full_name,
        by_member,
        by_renamed_member,
        by_local_import,
        by_comprehension,
        by_generator,
        by_class_body,
        by_eval,
        by_lambda,
        by_star,
        by_math,
    ],
)
def test_arrays_made_by_numpy_are_traced_under_every_name(function):
    check(function, X)


def test_creating_functions_give_cells_of_the_trace():
    def f(x):
        made = [
            np.zeros(3),
            np.array([x[0], 2.0]),
            np.arange(3),
            np.zeros_like(x),
            *np.meshgrid(x, x),
            np.linspace(0, 1, 3),
            np.asarray([1, 2]),
        ]
        assert all(isinstance(one, Tracer) for one in made)
        return x

    tj.jit(f)(X)


def test_nested_lists_of_traced_arrays_are_arrays():
    check(
        lambda x: (
            np.array([x[0], x[1] ** 2, 3.0]),
            np.sum([x[0], x[1]]),
            np.mean([x, x + 1]),
            np.array([[x[0], 1.0], [2.0, x[1]]]),
        ),
        X,
    )


def test_a_call_of_a_numpy_type_converts():
    check(lambda x: (np.float32(x) * np.float64(2), float32(x).sum(), np.int32(x), np.bool_(x)), X)
    check(
        lambda x: (
            np.ones(2, np.float32) * float(x[1]),
            np.ones(2, np.float32) * np.float32(x[1]),
            np.ones(2) * int(x[3]),
        ),
        X,
    )


def test_calls_of_numpy_types_are_found_in_code_that_python_has_specialised():
    def f(x):
        return np.float32(x) + float32(x) * float(x[1])

    clone = substitution.redirect(f)
    for _ in range(100):
        f(np.float64(1.0) * np.ones(2))
        clone(np.ones(2))
    assert tj.jit(f)(X).dtype == np.float32
    assert tj.jit(f)(np.ones(7)).dtype == np.float32


def test_other_ways_to_make_and_walk_arrays():
    def f(x):
        made = np.ndarray(4, dtype=np.float64)
        made[:] = x
        for (i,), v in np.ndenumerate(x):
            made[i] += v * i
        return (
            made,
            np.fromfunction(lambda i, j: i + j * 2, (2, 3)),
            np.asanyarray(x),
            np.isscalar(2.0) and not np.isscalar(x),
        )

    check(f, X)
    assert substitution.redirect(lambda: np.ndarray((2,), np.int8))().dtype == np.int8


def test_types_that_are_passed_or_asked_are_the_real_ones():
    def f(x):
        parts = [np.float32, float32, float]
        assert all(isinstance(p, type) for p in parts)
        assert float.fromhex("0x1p1") == 2.0
        assert np.finfo(np.float32).bits == 32
        assert float32.__name__ == "float32"
        return x.astype(np.float32) + np.zeros(4, float32) + np.zeros(4, dtype=parts[0])

    assert tj.jit(f)(X).dtype == np.float32


def test_python_numbers_of_traced_values_stay_weakly_typed():
    out = tj.jit(lambda x: np.ones(2, np.float32) * float(x[1]))(X)
    assert out.dtype == np.float32


def test_conversion_of_many_elements_to_a_number_is_refused():
    with pytest.raises(TypeError, match=r"one element|rank 0"):
        tj.jit(lambda x: float(x))(X)


def test_types_constants_and_submodules_keep_their_identity():
    seen: dict[str, Any] = {}

    def f(x):
        seen.update(
            types=np.float64 is float64_outside
            and np.ndarray is ndarray_outside
            and float32 is f32_outside
            and float is float_outside,
            dtype=x.dtype == np.float64
            and np.dtype(np.float32) == np.dtype("f4")
            and np.zeros(2, dtype=np.int32).dtype == np.int32,
            constants=(np.pi, np.inf, np.newaxis) == (pi_outside, float("inf"), None),
            stable=np.zeros is np.zeros
            and np.zeros is numpy.zeros
            and zeros is np.zeros
            and np.linalg is la
            and np is numpy,
            module=isinstance(np, types.ModuleType) and np.__name__ == "numpy" and np.__version__ == version_outside,
            equal=np == np_outside,
            testing=np.testing.assert_allclose is assert_outside,
            checks=issubclass(np.float32, np.floating) and isinstance(np.float64(1.0), float),
        )
        return x

    np_outside, version_outside, pi_outside = (lambda: sys.modules["numpy"])(), numpy.__version__, numpy.pi
    float64_outside, ndarray_outside, f32_outside, float_outside = np.float64, np.ndarray, float32, float
    assert_outside = np.testing.assert_allclose
    tj.jit(f)(X)
    assert seen == dict.fromkeys(seen, True)


def test_traced_arrays_are_instances_of_the_types_they_stand_for():
    seen = []

    def f(x, n, s):
        seen.append(
            (isinstance(x, np.ndarray), isinstance(x, (list, tuple)), isinstance(n, float), isinstance(n, np.ndarray))
        )
        seen.append(
            (
                isinstance(s, np.floating),
                isinstance(x[0], np.float64),
                isinstance(s, np.ndarray),
                isinstance(3, int),
                isinstance(x, Tracer),
            )
        )
        return x * n + s

    tj.jit(f)(X, 2.0, np.float32(1))
    assert seen == [(True, False, True, False), (True, True, False, True, True)]


def test_min_and_max_of_traced_numbers_compare_as_python_does():
    nan = np.array([np.nan, 1.0])
    check(
        lambda x: (
            max(x[0], x[2]),
            min(x[1], 0.5),
            max([x[0], x[1], x[3]]),
            max(1, 2),
            min([3, 4]),
            max("a", "b") == "b",
        ),
        X,
    )
    check(lambda x: (max(x[0], x[1]), max(x[1], x[0]), min(x[0], x[1])), nan)


def test_rounding_functions_of_math_give_integers():
    check(lambda x: (math.floor(x[3] / 2), math.ceil(x[1] / 2), math.trunc(x[2])), X)


def test_arrays_of_other_dtypes_are_numpys_own():
    seen = []

    def f(x):
        seen.append((np.array(["a", "b"]), np.array([object()]), np.zeros(2, dtype=object)))
        return x

    tj.jit(f)(X)
    assert all(type(a) is np.ndarray for a in seen[0])


def test_values_known_while_tracing_decide_branches_and_loops():
    def f(x):
        out = np.zeros(4)
        steps = np.arange(1, 4)
        for i in steps:
            if i % 2 == 1:
                out[i] = x[i - 1]
        return out.reshape(tuple(np.array([2, 2])))

    check(f, X)


def test_functions_without_a_traced_version_work_on_known_values():
    def f(x):
        bins = np.histogram_bin_edges(np.array([1.0, 2.0, 2.0]), bins="auto")
        return x[:2] * len(bins) + bins[0] + np.spacing(np.array([1.0, 2.0]))

    check(f, X)
    with pytest.raises(ConcretizationError, match=r"np\.histogram_bin_edges with bins='auto'"):
        tj.jit(lambda x: np.histogram_bin_edges(x, "auto"))(X)
    with pytest.raises(UnsupportedError, match=r"np\.isnat is not supported"):
        tj.jit(lambda x: np.isnat(x))(X)


def test_a_branch_on_an_argument_is_refused_as_before(without_statements: None):
    with pytest.raises(ConcretizationError):
        tj.jit(lambda x: x if x[0] > 0 else np.zeros(4))(X)


def test_a_number_that_decides_through_arithmetic_becomes_static():
    def f(x, n):
        out = np.zeros(n)
        for i in range(math.floor(n / 2)):
            out[i] = x[i]
        return out

    compiled = tj.jit(f)
    np.testing.assert_array_equal(compiled(X, 4), [0, 1, 0, 0])
    np.testing.assert_array_equal(compiled(X, 6), [0, 1, 2, 0, 0, 0])


# -- functions of the user
# ---------------------------------------------------------------------------------------------------------------
def helper(x):
    out = np.zeros_like(x)
    out[0] = x[1]
    return out


def deeper(x, times=2, *, also=helper):
    return helper(x) if times == 0 else deeper(x, times - 1) + also(x)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        out = np.ones(4)
        out *= function(*args)
        return out

    return wrapper


@decorated
def with_decorator(x):
    return helper(x) + zeros(4)


def closing_over(w, k=5):
    member, module = np.zeros, np

    def factorial(n):
        return 1 if n == 0 else n * factorial(n - 1)

    def inner(x):
        out = member(4)
        out[:] = x * w * k
        return out * factorial(3) + module.ones(4)

    return inner


def add_scaled(a, x, *, b):
    out = np.zeros(4)
    out[:] = a * x + b
    return out


FUNCTIONS = {"helper": helper, "nested": [lambda x: np.zeros(4) + x]}


def from_containers(x):
    return FUNCTIONS["helper"](x) + FUNCTIONS["nested"][0](x)


class Base:
    def offset(self, x):
        out = np.zeros(4)
        out[1] = x[1]
        return out


class Model(Base):
    shared = 3.0

    def __init__(self, w):
        self.w = w
        self.parts = [Part(1.0), Part(2.0)]

    def __call__(self, x):
        out = np.empty_like(x)
        out[:] = self.step(x) + self.doubled + self.fixed(x) + type(self).made(x)
        return out + super().offset(x) + sum(p.run(x) for p in self.parts)

    def step(self, x):
        out = np.zeros(4)
        out[2] = self.shared
        return out + x * self.w

    @property
    def doubled(self):
        out = np.zeros(4)
        out[:] = self.w
        return 2 * out

    @staticmethod
    def fixed(x):
        out = np.zeros(4)
        out[3] = x[3]
        return out

    @classmethod
    def made(cls, x):
        out = np.full(4, cls.shared)
        out[0] = x[0]
        return out


class Part:
    def __init__(self, k):
        self.k = k

    def run(self, x):
        out = np.zeros(4)
        out[0] = self.k * x[0] + 1
        return out


MODEL = Model(np.full(4, 3.0))


def with_objects(x):
    return MODEL(x) + Model(2.0)(x) + MODEL.step(x)


@pytest.mark.parametrize(
    "function",
    [
        helper, deeper, with_decorator, closing_over(np.ones(4)), from_containers, MODEL, MODEL.step, Model.fixed,
        Model.made, with_objects, partial(add_scaled, 2.0, b=1.0), lambda x: partial(add_scaled, b=x)(x, x),
        lambda x: list(map(helper, [x, x + 1]))[1],
    ],
)  # fmt: skip
def test_functions_that_a_function_calls_are_traced_with_it(function):
    check(function, X)


def test_classes_have_their_own_functions_back_after_a_trace():
    before = {kind: dict(vars(kind)) for kind in (Base, Model, Part)}
    tj.jit(with_objects)(X)
    with pytest.raises(ZeroDivisionError):
        tj.jit(lambda x: MODEL(x) / (1 // 0))(X)
    for kind, members in before.items():
        assert dict(vars(kind)) == members
        assert kind.__getattribute__ is object.__getattribute__
    assert inspect.isfunction(Model.step)


def test_a_class_that_is_traced_often_stays_as_it_looks():
    class Often:
        k = 2.0

        def run(self, x):
            """Doubles."""
            out = np.zeros(4)
            out[:] = x * self.k
            return out

        @property
        def double(self):
            return np.zeros(2) + self.k

        @double.setter
        def double(self, value):
            self.set = value

    thing = Often()
    run = prepared(lambda x: thing.run(x) + np.zeros(4))
    for _ in range(40):
        np.testing.assert_array_equal(run(X), X * 2)
    assert inspect.isfunction(Often.run)
    assert Often.run.__doc__ == "Doubles."
    assert type(thing.run(X)) is np.ndarray
    assert Often.double.fset is not None
    thing.double = 3
    assert thing.set == 3
    with pytest.raises(AttributeError, match="deleter"):
        del thing.double
    member = vars(Often)["run"]
    assert member.__name__ == "run"
    assert copy.copy(member) is member.original
    Often.run = lambda self, x: np.zeros(4) + 1
    np.testing.assert_array_equal(run(X), np.ones(4))
    np.testing.assert_array_equal(tj.grad(lambda x: np.sum(thing.run(x) * x))(X), np.ones(4))
    assert Often.__getattribute__ is object.__getattribute__


def test_other_threads_see_original_methods_during_a_trace():
    inside, done = threading.Event(), threading.Event()
    results: dict[str, Any] = {}

    def f(x):
        results["traced"] = object.__repr__(MODEL.step(x))
        inside.set()
        assert done.wait(20)
        return MODEL(x)

    def other():
        assert inside.wait(20)
        results["plain"] = type(MODEL.step(X))
        results["property"] = type(MODEL.doubled)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    tj.jit(f)(X)
    thread.join()
    assert "Tracer" in results.pop("traced")
    assert results == {"plain": np.ndarray, "property": np.ndarray}


def test_threads_trace_at_once():
    barrier = threading.Barrier(4)
    results: list[Any] = [None] * 4

    def work(n: int) -> None:
        def f(x):
            out = np.zeros(4)
            out[:] = MODEL(x) * n
            return out + helper(x)

        barrier.wait()
        results[n] = tj.jit(f)(X)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(4):
        np.testing.assert_allclose(results[n], MODEL(X) * n + helper(X))
    assert inspect.isfunction(Model.step)


def test_functions_of_the_users_other_modules_are_traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "project_of_a_user"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rates.py").write_text(
        "import numpy as np\nK = 2.0\ndef rate(x):\n    out = np.zeros(4)\n    out[:] = x * K\n    return out\n"
    )
    (package / "use.py").write_text(
        "from numpy import *\nfrom . import rates\nfrom .rates import rate\n"
        "class Held:\n    def run(self, x):\n        out = zeros(4)\n        out[0] = x[0]\n        return out\n"
        "def total(x):\n    from .rates import rate as local\n    return rates.rate(x) + rate(x) + local(x) + ones(4) "
        "+ Held().run(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    use = importlib.import_module("project_of_a_user.use")
    check(use.total, X)

    def f(x):
        return use.total(x) + use.rates.K

    compiled = tj.jit(f)
    np.testing.assert_array_equal(compiled(X), f(X))
    use.rates.K = 5.0
    np.testing.assert_array_equal(compiled(X), f(X))


def test_code_made_by_exec_is_traced():
    space: dict[str, Any] = {}
    exec("import numpy as np\ndef f(x):\n    out = np.zeros(4)\n    out[:] = x\n    return out", space)
    check(space["f"], X)


# -- what is left alone
# ------------------------------------------------------------------------------------------------------------------
def test_installed_functions_and_builtins_are_left_alone():
    assert substitution.redirect(abs) is abs
    assert substitution.redirect(np.exp) is np.exp
    assert not is_users_function(inspect.signature)
    assert not is_users_function(functools.wraps)
    assert is_users_function(helper)
    assert is_users_module(sys.modules[__name__])
    assert not is_users_module(np)
    assert not is_users_module(math)
    assert not is_users_module(tj)
    assert is_users_type(Model)
    assert not is_users_type(np.ndarray)
    assert not is_users_type(dict)
    assert not is_users_type(Path)
    seen = []

    def f(x):
        seen.extend([len, functools.reduce, np.exp, Path, threading])
        return x

    tj.jit(f)(X)
    for found, original in zip(seen, [len, functools.reduce, np.exp, Path, threading], strict=True):
        assert found is original


def test_functions_compiled_by_others_are_left_alone():
    numba = pytest.importorskip("numba")
    compiled = numba.njit(lambda x: x + 1)
    seen = []

    def f(x):
        seen.append(compiled)
        return x + compiled(1.0)

    check(f, X)
    assert all(s is compiled for s in seen)
    assert substitution.redirect(compiled) is compiled


def test_a_class_with_a_metaclass_or_slots_or_of_values_still_works():
    import abc
    import dataclasses
    import enum

    class Kind(enum.Enum):
        A = 1

        def scaled(self, x):
            return x * self.value

    class Abstract(abc.ABC):
        @abc.abstractmethod
        def run(self, x): ...

    class Slotted(Abstract):
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

        def run(self, x):
            out = np.zeros(4)
            out[:] = x * self.k
            return out

    @dataclasses.dataclass(frozen=True)
    class Record:
        k: float

        def run(self, x):
            return np.zeros(4) + x * self.k

    class Callable_:
        def __matmul__(self, x):
            out = np.zeros(4)
            out[0] = x[0]
            return out

    slotted, record, operator_ = Slotted(2.0), Record(3.0), Callable_()
    check(lambda x: slotted.run(x) + record.run(x) + Record(1.0).run(x) + Kind.A.scaled(x) + (operator_ @ x), X)
    with pytest.raises(TypeError, match="abstract"):
        Abstract()  # type: ignore[abstract]


def test_redirect_false_leaves_the_function_as_it_is():
    seen = []

    def f(x):
        seen.append(type(np.zeros(2)))
        return x

    tj.jit(redirect=False)(f)(X)
    assert seen == [np.ndarray]


# -- clones ------------------------------------------------------------------------------------------------------------
def test_a_clone_looks_like_its_function():
    def original(a: int, b: str = "x", /, *args: float, c: int = 3, **kwargs: Any) -> tuple[int, ...]:
        """Says something."""
        return (a, c)

    original.tag = "kept"  # type: ignore[attr-defined]
    clone = substitution.redirect(original)
    assert clone is not original
    assert clone.__code__ is original.__code__
    for name in (
        "__name__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__annotations__",
        "__defaults__",
        "__kwdefaults__",
        "tag",
    ):
        assert getattr(clone, name) == getattr(original, name)
    assert inspect.signature(clone) == inspect.signature(original)
    assert isinstance(clone.__globals__, Namespace)
    assert clone(1) == (1, 3)


def test_a_function_keeps_its_clone_and_a_clone_is_its_own():
    assert substitution.redirect(helper) is substitution.redirect(helper)
    assert substitution.redirect(substitution.redirect(helper)) is substitution.redirect(helper)


def test_a_changed_function_gets_a_new_clone():
    def f(x):
        return x + 1

    def g(x):
        return x + 2

    assert substitution.redirect(f)(1) == 2
    f.__code__ = g.__code__
    assert substitution.redirect(f)(1) == 3


def test_a_function_is_seen_as_the_same_throughout_a_trace():
    def inner(x):
        return x

    def f(x):
        assert inner is (lambda: inner)()
        assert helper is (lambda: helper)()
        assert FUNCTIONS["helper"] is helper
        return inner(x)

    tj.jit(f)(X)


def test_globals_are_read_live():
    space: dict[str, Any] = {"k": 1}
    exec("def f(): return k", space)
    clone = substitution.redirect(space["f"])
    assert clone() == 1
    space["k"] = 2
    assert clone() == 2
    del space["k"]
    with pytest.raises(NameError, match="'k'"):
        clone()


def test_globals_seen_as_a_dict():
    def f(x):
        space = globals()
        assert space["X"].shape == (4,)
        assert "X" in space
        assert space.get("nothing", 7) == 7
        assert len(space) == len(list(space)) == len(space.values())
        assert set(space.keys()) >= {"np", "X"}
        assert isinstance(space.copy(), dict)
        assert "globals of" in repr(space)
        return x + globals()["ones"](4)

    np.testing.assert_array_equal(tj.jit(f)(X), X + 1)


def test_globals_seen_as_a_dict_are_not_changed():
    def stores(x):
        globals()["new"] = 1
        return x

    def executes(x):
        exec("new = 1", globals())
        return x

    for f in (stores, executes):
        with pytest.raises(UnsupportedError, match="changes global names"):
            tj.jit(f)(X)


def test_outside_of_a_trace_a_clone_does_what_its_function_does():
    out = substitution.redirect(by_module)(X)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, by_module(X))
    assert type(substitution.redirect(lambda: np.random.rand(2))()) is np.ndarray


def test_a_traceback_shows_the_users_lines():
    def fails(x):
        return helper(x) + np.zeros(4).reshape(3)

    with pytest.raises(ValueError, match="reshape") as caught:
        tj.jit(fails)(X)
    frames = traceback.extract_tb(caught.tb)
    assert any(f.filename == __file__ and f.name == "fails" for f in frames)


def test_builtins_that_a_module_replaces_are_found(monkeypatch: pytest.MonkeyPatch):
    space: dict[str, Any] = {"__builtins__": dict(vars(builtins)) | {"len": lambda x: 42}}
    exec("def f(): return len([]), abs(-1), unknown() if False else None", space)
    assert substitution.redirect(space["f"])() == (42, 1, None)


def stores_a_global(x):
    global counter
    counter += 1
    return x


def calls_one_that_stores(x):
    return stores_a_global(x) + 1


def stores_within(x):
    def inner():
        global counter
        counter = 2

    inner()
    return x


@pytest.mark.parametrize("function", [stores_a_global, calls_one_that_stores, stores_within])
def test_stores_of_globals_are_refused_by_name(function):
    before = counter
    with pytest.raises(UnsupportedError, match=r"changes the global 'counter'.*redirect=False"):
        tj.jit(function)(X)
    assert counter == before


def test_a_function_that_stores_globals_may_be_named_and_called_outside():
    def f(x):
        return x if callable(stores_a_global) else None

    check(f, X)
    before = counter
    substitution.redirect(stores_a_global)(1)
    assert counter == before + 1


def test_variables_of_enclosing_functions_can_be_stored():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x * 2

    compiled = tj.jit(f)
    compiled(X)
    compiled(X)
    assert calls == 2


def test_a_variable_without_a_value_yet_is_an_error_of_python():
    def f(x):
        return later(x)

    with pytest.raises(NameError):
        tj.jit(f)(X)

    def later(x):
        return np.zeros(4) + x

    np.testing.assert_array_equal(tj.jit(f)(X), X)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.rand(4),
        lambda: np.random.default_rng(0),
        lambda: np.random.normal(size=4),
        lambda: GENERATOR.normal(size=4),
        lambda: rand(4),
    ],
)
def test_random_numbers_with_a_hidden_state_are_refused(draw):
    with pytest.raises(UnsupportedError, match="draw them outside and pass them"):
        tj.jit(lambda x: x + draw())(X)


GENERATOR = np.random.default_rng(3)
rand = np.random.rand


def test_types_of_generators_can_be_named():
    check(lambda x: x if isinstance(GENERATOR, np.random.Generator) else x + 1, X)


def test_modules_of_the_user_cannot_be_changed_while_tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "module_of_settings.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = importlib.import_module("module_of_settings")

    def f(x):
        settings.value = 2
        return x

    with pytest.raises(UnsupportedError, match=r"sets module_of_settings\.value"):
        tj.jit(f)(X)
    assert settings.value == 1


def test_views_of_modules_are_modules():
    seen = []

    def f(x):
        assert isinstance(np, ModuleView)
        assert np == sys.modules["numpy"]
        assert hash(np) == hash(sys.modules["numpy"])
        assert "zeros" in dir(np)
        with pytest.raises(AttributeError, match="nothing_like_it"):
            _ = np.nothing_like_it
        seen.append((repr(np), np.__file__))
        seen.append(np)
        return x

    tj.jit(f)(X)
    assert seen == [(repr(np), np.__file__), np]
    assert seen[1] is np  # outside it is the module itself


# -- transformations and traces
# ----------------------------------------------------------------------------------------------------------
def test_a_prepared_function_runs_in_the_trace_in_progress_or_its_own():
    seen = []

    def f(x):
        seen.append(current_trace())
        return helper(x)

    prepared(f)(X)
    with tracing() as trace:
        prepared(f)(X)
    assert seen[0] is not None
    assert seen[0] is not trace
    assert seen[1] is trace
    assert current_trace() is None
    assert prepared(f).__name__ == "f"


def test_jit_within_jit_is_redirected():
    inner = tj.jit(helper)
    check(lambda x: inner(x) + np.zeros(4), X)


def test_in_place_use_of_an_array_is_differentiated():
    def loss(x):
        out = np.zeros(4)
        out[1:] = x[:-1] ** 2
        return np.sum(out * helper(x))

    grad = tj.grad(loss)
    h = 1e-6
    numeric = [(loss(X + h * e) - loss(X - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(grad(X), numeric, atol=1e-6)
    np.testing.assert_allclose(tj.jit(grad)(X), numeric, atol=1e-6)


def test_a_mapped_function_fills_arrays():
    def f(x):
        out = np.zeros(2)
        out[0] = x
        return out

    np.testing.assert_array_equal(tj.vmap(f)(X), np.stack([X, np.zeros(4)], 1))


@pytest.mark.parametrize(
    "made", [lambda: np.zeros(()), lambda: np.array(2.0), lambda: np.full((), 3.0), lambda: np.asarray(1.5)]
)
def test_created_arrays_of_rank_0_are_changed_in_place(made: Any):
    def f(x: Any) -> Any:
        s = made()
        t = s
        s += x[0]
        return s, t

    x = np.arange(1.0, 5.0)
    for got, want in zip(tj.jit(f)(x), f(x), strict=True):
        assert got == want

    def total(x: Any) -> Any:
        s = made()
        for n in tj.range(x.shape[0]):
            s += x[n]
        return s

    assert tj.jit(total)(x) == total(x)


def test_classes_of_no_module():
    scope: dict[str, Any] = {}
    code = "class Base:\n    k = 2.0\n    def double(self, x): return x * 2\nZ = type('Z', (Base,), {})"
    exec(code, {"__builtins__": __builtins__}, scope)
    z = scope["Z"]()
    f = tj.jit(lambda x: z.double(x) * z.k)
    np.testing.assert_array_equal(f(np.ones(2)), [4, 4])
    scope["Base"].k = 3.0
    np.testing.assert_array_equal(f(np.ones(2)), [6, 6])


def test_isinstance_of_every_kind():
    kinds: list[Any] = [
        int, float, bool, (int, float), int | float, np.ndarray, Sequence, numbers.Number, numbers.Real, np.floating,
        np.generic, object, list, (int, (float, np.ndarray)), float | np.ndarray,
    ]  # fmt: skip
    for argument in (2, 2.5, True, np.float32(3), np.ones(2)):
        for kind in kinds:
            f = lambda x: isinstance(x, kind)  # noqa: B023, E731
            assert tj.jit(f)(argument) == f(argument), (argument, kind)
            g = lambda x: np.ones(3) * (1 if isinstance(x + 0, kind) else 2)  # noqa: B023, E731
            assert tj.jit(g)(argument).tolist() == g(argument).tolist()


def case_of(x: Any) -> Any:
    match x:
        case bool():
            return x
        case int() | float():
            return x * 2
        case np.ndarray(shape=(n,)) if n > 1:
            return x + n
        case np.ndarray():
            return x + 1
        case np.generic():
            return x + 3
        case _:
            return x * 0


@pytest.mark.parametrize("x", [2.5, 3, True, np.ones(2), np.ones(1), np.float32(2), np.array(1.0)])
def test_a_traced_value_is_of_the_class_that_it_stands_for(x: Any):
    assert np.array_equal(tj.jit(case_of)(x), case_of(x))
    for f in (
        lambda x: x.__class__.__name__,
        lambda x: x.__class__ is type(x),
        lambda x: issubclass(x.__class__, np.generic),
    ):
        assert tj.jit(f)(x) == f(x)


@pytest.mark.parametrize(
    "name", ["__len__", "__iter__", "is_integer", "__array_interface__", "__dict__", "shape", "item", "nothing"]
)
@pytest.mark.parametrize("x", [2.5, 3, np.float32(2), np.ones(2), np.array(1.0)])
def test_hasattr_says_what_is_true_of_what_it_stands_for(x: Any, name: str):
    assert tj.jit(lambda x: hasattr(x, name))(x) == hasattr(x, name)


# -- packages that ask for arrays
# ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["chebyshev.chebval", "polynomial.polyval", "legendre.legval", "hermite.hermval", "laguerre.lagval"]
)
def test_polynomials_of_two_dimensions_of_coefficients(name):
    module, _, function = name.partition(".")
    f = getattr(getattr(np.polynomial, module), function)
    c = np.arange(6.0).reshape(3, 2)
    for x in (np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.ones((2, 2))):
        np.testing.assert_allclose(tj.jit(lambda x: f(x, c))(x), f(x, c))


@pytest.mark.parametrize("roots", [2, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]]])
def test_polynomials_by_their_roots(roots):
    f = np.polynomial.polynomial.polyvalfromroots
    np.testing.assert_allclose(tj.jit(lambda x: f(x, roots))(np.arange(3.0)), f(np.arange(3.0), roots))


@typing.runtime_checkable
class HasShape(typing.Protocol):
    shape: tuple[int, ...]


def test_classes_that_ask_for_arrays():
    @attrs.define
    class Point:
        a: Any = attrs.field(validator=attrs.validators.instance_of((np.ndarray, float)))

    np.testing.assert_array_equal(tj.jit(lambda x: Point(x).a * 2)(np.ones(3)), [2, 2, 2])
    f = tj.jit(lambda x: (isinstance(x, HasShape), isinstance(x[0], HasShape), isinstance(2, HasShape)))
    assert f(np.ones(3)) == (True, True, False)


def test_running_extrema_of_masks():
    m = np.array([False, True, False])
    for f in (np.maximum.accumulate, np.minimum.accumulate):
        got = tj.jit(lambda m, f=f: f(m))(m)
        assert got.dtype == bool
        np.testing.assert_array_equal(got, f(m))
