"""What Python itself calls of the user's classes is traced: deleters, hooks of `copy`, `__init_subclass__`,
`__set_name__`, `dir`; and methods that keep what they compute, of objects that the function makes.
"""

from __future__ import annotations

import abc
import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.surroundings import Program, results


def deleter_of_a_property() -> Program:
    K = []

    class A:
        def __init__(self):
            self.v = 1.0

        @property
        def p(self):
            return len(K)

        @p.deleter
        def p(self):
            K.append(self.v)

    o = A()

    def f(x, k):
        del o.p
        return x + len(K)

    return f, (lambda i: K.append(5)), (lambda: K)


def deleter_that_starts_again() -> Program:
    K = []

    class A:
        def __init__(self):
            self.v = np.ones(2)

        @property
        def p(self):
            return len(K)

        @p.deleter
        def p(self):
            K.append(self.v)

    o = A()

    def f(x, k):
        del o.p
        return x + len(K) + np.zeros(k).sum()

    return f, (lambda i: K.append(5)), (lambda: K)


def state_of_a_copy() -> Program:
    V = [1.0]
    N = []

    class A:
        def __init__(self):
            self.v = 2.0

        def __getstate__(self):
            N.append(1)
            return {"v": self.v * V[0]}

    o = A()

    def f(x, k):
        return x * copy.copy(o).v + np.zeros(k).sum()

    def poke(i):
        V[0] = 10.0 + i

    return f, poke, (lambda: N)


def new_state_of_a_copy() -> Program:
    V = [1.0]
    N = []

    class A:
        def __init__(self):
            self.v = 2.0

        def __setstate__(self, s):
            N.append(1)
            self.v = s["v"]
            self.z = V[0]

    o = A()

    def f(x, k):
        c = copy.deepcopy(o)
        return x * c.v + c.z + np.zeros(k).sum()

    def poke(i):
        V[0] = 10.0 + i
        o.v += 1

    return f, poke, (lambda: N)


def copies_made_anew() -> Program:
    V = [1.0]
    N = []

    class A:
        def __init__(self, v=2.0):
            self.v = v

        def __reduce__(self):
            N.append(1)
            return (A, (self.v * V[0],))

    o = A()

    def f(x, k):
        c = copy.deepcopy(o)
        d = copy.copy(o)
        return x * c.v + d.v + np.zeros(k).sum()

    def poke(i):
        V[0] = 10.0 + i
        o.v += 1

    return f, poke, (lambda: N)


def cached_method_of_new_objects() -> Program:
    S = [2.0]
    N = []

    class P:
        def __init__(self, n):
            self.n = n

        @functools.lru_cache(None)  # noqa: B019
        def fac(self):
            N.append(1)
            return self.n * S[0]

    p0 = P(2)

    def f(x, k):
        p = P(3)
        return x * p.fac() + p.fac() + p0.fac() + np.zeros(k).sum()

    def poke(i):
        S[0] = 10.0 + i

    return f, poke, (lambda: N)


def cached_method_of_traced_objects() -> Program:
    S = [2.0]
    N = []

    class P:
        def __init__(self, n):
            self.n = n

        @functools.cache  # noqa: B019
        def fac(self):
            N.append(1)
            return self.n * S[0]

    def f(x, k):
        p = P(x)
        return x * p.fac() + p.fac() + np.zeros(k).sum()

    def poke(i):
        S[0] = 10.0 + i

    return f, poke, (lambda: N)


def classes_made_within() -> Program:
    K = [1.0]
    REG = []

    class Base:
        def __init_subclass__(cls):
            cls.k = K[0]
            REG.append(1)

    def f(x, k):
        class A(Base):
            pass

        return x * A.k + len(REG) + np.zeros(k).sum()

    def poke(i):
        K[0] = 10.0 + i

    return f, poke, (lambda: REG)


def names_of_descriptors() -> Program:
    K = [1.0]
    REG = []

    class Named:
        def __set_name__(self, o, n):
            self.n = K[0]
            REG.append(n)

        def __get__(self, i, o=None):
            return self.n

    def f(x, k):
        class A:
            d = Named()

        return x * A().d + len(REG) + np.zeros(k).sum()

    def poke(i):
        K[0] = 10.0 + i

    return f, poke, (lambda: REG)


def names_of_an_object() -> Program:
    K = ["a"]

    class A:
        def __dir__(self):
            return K

        def __sizeof__(self):
            return len(K)

    o = A()

    def f(x, k):
        return x * len(dir(o)) + o.__sizeof__()

    return f, (lambda i: K.append("b")), (lambda: K)


def cached_under(kind: Any, count: int) -> Callable[[], Program]:
    def program() -> Program:
        state = [2.0]
        made: list[int] = []

        class A:
            def __init__(self) -> None:
                self.n = 0

            def compute(self: Any) -> Any:
                made.append(1)
                return np.ones(count) * state[0]

            if kind is staticmethod:
                value = staticmethod(functools.cache(lambda: A.compute(None)))
            else:
                value = kind(functools.cache(compute))

        a = A()
        inner: Any = vars(A)["value"]
        cached: Any = inner.fget if kind is property else inner if kind is functools.lru_cache else inner.__func__

        def function(x: Any, k: int) -> Any:
            found: Any = a.value
            return x.sum() * (found if kind is property else found()) + np.zeros(k).sum()

        def change(i: int) -> None:
            state[0] += 1
            if i != 1:
                cached.cache_clear()

        def seen() -> Any:
            return made, (a.value if kind is property else a.value())

        return function, change, seen

    return program


def methods_of_other_objects() -> Program:
    class Counter:
        def __init__(self) -> None:
            self.step, self.n = 1.0, 0

        def count(self) -> float:
            self.n += 1
            return self.step + self.n

    counter = Counter()

    class A:
        get = counter.count

        @classmethod
        def through(cls) -> float:
            return cls.get()

    def function(x: Any, k: int) -> Any:
        return x + A.get() + A().get() + A.through() + np.zeros(k).sum()

    def change(i: int) -> None:
        counter.step += 10 * i

    return function, change, lambda: counter.n


def callable_objects(wrap: Callable[[Any], Any]) -> Callable[[], Program]:
    def program() -> Program:
        class Act:
            def __init__(self) -> None:
                self.k, self.n = 2.0, 0

            def __call__(self, *args: Any) -> float:
                self.n += 1
                return self.k

        act = Act()

        class A:
            member = wrap(act)

        def function(x: Any, k: int) -> Any:
            found = A().member
            return x * (found(1.0) if callable(found) else found) + np.zeros(k).sum()

        def change(i: int) -> None:
            act.k += 1

        return function, change, lambda: act.n

    return program


def cached_in_wrappers() -> Program:
    state = [2.0]
    made: list[int] = []

    @np.errstate(all="ignore")
    @functools.cache
    def wrapped(n: int) -> Any:
        made.append(1)
        return np.ones(2) * n * state[0]

    class A:
        @functools.singledispatchmethod
        @functools.cache  # noqa: B019
        def dispatched(self, n: int) -> Any:
            made.append(2)
            return np.ones(2) * n * state[0]

        @functools.cache  # noqa: B019
        def of_two(self, n: int) -> Any:
            made.append(3)
            return np.ones(2) * n * state[0]

        of_three = functools.partialmethod(of_two, 3)

    a = A()

    def function(x: Any, k: int) -> Any:
        return x.sum() * wrapped(2) + a.dispatched(2) + a.of_three() + np.zeros(k).sum()

    def change(i: int) -> None:
        state[0] += 1

    return function, change, lambda: (made, wrapped(2), a.dispatched(2), a.of_three())


def cached_function_that_fails() -> Program:
    table: dict[str, float] = {}

    @functools.cache
    def look(key: str) -> float:
        return table[key]

    class A:
        source: Any = None

        @functools.cached_property
        def size(self) -> float:
            if self.source is None:
                raise AttributeError("no source yet")
            return 10.0 * len(self.source)

    a = A()

    def function(x: Any, k: int) -> Any:
        try:
            x = x + look("a")
        except KeyError:
            x = x - 1
        if hasattr(a, "size"):
            x = x + a.size
        return x + np.zeros(k).sum()

    def change(i: int) -> None:
        if i == 1:
            table["a"] = 5.0
        if i == 2:
            a.source = "ab"

    return function, change, lambda: vars(a)


def subclasses_of_wrappers() -> Program:
    scale = [2.0]
    made: list[int] = []

    class ClassProperty(classmethod):  # type: ignore[type-arg]
        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return super().__get__(instance, owner)()

    class Static(staticmethod):  # type: ignore[type-arg]
        pass

    class Counted(staticmethod):  # type: ignore[type-arg]
        n = 0

        def __call__(self, *args: Any) -> Any:
            self.n += 1
            return super().__call__(*args) * self.n

    class Scaled(property):
        gain = 3.0

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            return self if instance is None else super().__get__(instance, owner) * self.gain

    class Dispatched(functools.singledispatchmethod):  # type: ignore[type-arg]
        pass

    class Partial(functools.partial):  # type: ignore[type-arg]
        pass

    class CountedPartial(functools.partial):  # type: ignore[type-arg]
        n = 0

        def __call__(self, *args: Any) -> Any:
            self.n += 1
            return super().__call__(*args) + self.n

    def product(u: Any, v: Any) -> Any:
        made.append(1)
        return u * v * scale[0]

    partial, counted = Partial(product, 2.0), CountedPartial(product, 3.0)
    scaled = Counted(lambda y: y * scale[0])

    class A:
        @ClassProperty
        def size(cls) -> float:
            made.append(2)
            return scale[0]

        @Static
        def static(y: Any) -> Any:  # type: ignore[misc]
            return y * scale[0]

        @Scaled
        def value(self) -> float:
            made.append(3)
            return scale[0]

        @Dispatched
        def dispatched(self, y: Any) -> Any:
            made.append(4)
            return y * scale[0]

    a = A()

    def function(x: Any, k: int) -> Any:
        y = x * A.size + len(made) + A.static(1.0) + a.static(2.0) + a.value + a.dispatched(3.0) + partial(1.0)
        return y + counted(2.0) + scaled(1.0) + scaled.n + counted.n + A.value.gain + np.zeros(k).sum()

    def change(i: int) -> None:
        scale[0] += 1
        vars(A)["value"].gain += 1
        counted.n += 5

    return function, change, lambda: (made, counted.n, scaled.n, vars(A)["value"].gain)


def attributes_of_cached_functions() -> Program:
    @functools.cache
    def look(n: int) -> float:
        return n * 2.0

    named: Any = look
    named.count, named.weights = 0, np.ones(2)
    table = {"a": [1.0]}
    proxy = types.MappingProxyType(table)
    proxies = [proxy]

    def function(x: Any, k: int) -> Any:
        named.count += 1
        named.last, named.array = look(3), np.zeros(2) + 1
        named.weights = named.weights + 1
        y = x.sum() * named.weights + named.count + named.last + named.array + np.zeros(k).sum()
        return y + (proxy is proxies[0]) + proxy["a"][0]

    def change(i: int) -> None:
        named.count += 10
        named.weights = named.weights * 2
        table["a"][0] += 1

    return function, change, lambda: (named.count, named.last, named.array, named.weights)


def mixin_before_a_hook(base: type, *mixins: type) -> Callable[[], Program]:
    """mixins: classes without hooks that stand before the one that has them."""

    def program() -> Program:
        kind = types.new_class("K", (*mixins, base), {}, lambda members: members.update(__module__=__name__, n=0))
        o = kind()
        o.w = np.ones(1)

        def function(x: Any, k: int) -> Any:
            o.a = len(x)
            y = x * o.a + o.w + np.zeros(k).sum()
            if hasattr(o, "b"):
                del o.b
            return y

        def change(i: int) -> None:
            o.w = o.w + i
            o.b = i

        return function, change, lambda: (sorted(vars(o).items(), key=str), getattr(o, "seen", None))

    return program


class Plain:
    pass


class Also(Plain):
    pass


class Doubling:
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value * 2)


class Recording:
    def __init__(self) -> None:
        object.__setattr__(self, "seen", [])

    def __setattr__(self, name: str, value: Any) -> None:
        self.seen.append(name)  # type: ignore[attr-defined]
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self.seen.append(f"no {name}")  # type: ignore[attr-defined]
        super().__delattr__(name)


class Shifting:
    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return found + 1 if name == "a" else found


class Cooperative(Plain):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value + 1)


MIXED = [
    (Doubling, Plain), (Recording, Plain), (Shifting, Also), (Recording, Cooperative), (Recording, Also, Cooperative),
    (Doubling, Cooperative, abc.ABC), (Plain,), (Shifting, Doubling, Recording, Plain),
]  # fmt: skip


def jitted_method_as_a_value(hold: Callable[[Any], Callable[[Any], Any]]) -> Callable[[], Program]:
    def program() -> Program:
        class A:
            k = 2.0

            def __init__(self) -> None:
                self.w = 1.0

            def inner(self, x: Any) -> Any:
                return x * self.k + self.w

            @tj.jit
            def method(self, x: Any) -> Any:
                return self.inner(x)

        a = A()
        held = hold(a.method)

        def function(x: Any, k: int) -> Any:
            return held(x) + np.zeros(k).sum()

        def change(i: int) -> None:
            A.k += 1
            a.w = a.w + i
            if i == 2:
                A.inner = lambda self, x: x * 7  # type: ignore[method-assign]

        return function, change, lambda: a.w

    return program


HOLDERS: list[Callable[[Any], Callable[[Any], Any]]] = [
    lambda m: m, lambda m: functools.partial(m), lambda m: lambda x: {"m": m}["m"](x), lambda m: lambda x: [m][-1](x),
    lambda m: lambda x: tj.lax.cond(np.sum(x) > 0, m, m, x), lambda m: lambda x: sum(map(m, [x])),
    lambda m: tj.vmap(m), lambda m: lambda x: tj.lax.map(m, x), lambda m: types.SimpleNamespace(m=m).m,
]  # fmt: skip


WRAPPERS: list[Callable[[Any], Any]] = [
    staticmethod, classmethod, property, functools.cached_property, lambda a: a, np.errstate(all="ignore"),
    lambda a: functools.partial(a, 2), lambda a: property(lambda self: 1.0, a), lambda a: staticmethod(np.vectorize(a)),
]  # fmt: skip


@pytest.mark.parametrize("program", [
    deleter_of_a_property, deleter_that_starts_again, state_of_a_copy, new_state_of_a_copy, copies_made_anew,
    cached_method_of_new_objects, cached_method_of_traced_objects, classes_made_within, names_of_descriptors,
    names_of_an_object, methods_of_other_objects,
    *[cached_under(kind, n) for kind in (property, staticmethod, classmethod) for n in (1, 3)],
    attributes_of_cached_functions, subclasses_of_wrappers,
    cached_in_wrappers, cached_function_that_fails, *map(callable_objects, WRAPPERS),
    *map(jitted_method_as_a_value, HOLDERS), *[mixin_before_a_hook(*kinds) for kinds in MIXED],
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:functools.partial will be a method descriptor:FutureWarning")
def test_hooks(program: Callable[[], Program]):
    assert results(program, tj.jit) == results(program, lambda function: function)
