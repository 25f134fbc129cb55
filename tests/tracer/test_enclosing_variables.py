"""Variables of enclosing functions that several functions share, and code that changes them from where nobody looks:
managers as decorators, functions that keep their results, factories, metaclasses; and what lists all names there are.

Every program is made twice, run plainly and compiled, and what both have changed outside is compared, too.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import functools
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

X = np.arange(3.0)
Program = Callable[[], tuple[Callable[[Any], Any], Callable[[], Any], Callable[[], None]]]


def nothing() -> None:
    pass


def check(program: Program, calls: int = 5) -> None:
    """Call after call the same results, the same state after each; `program` gives the function, what shows its state,
    and what changes that between calls.
    """
    plain, plain_state, plain_change = program()
    traced, state, change = program()
    compiled = tj.jit(traced)
    for n in range(calls):
        x = X + n
        np.testing.assert_array_equal(compiled(x.copy()), plain(x.copy()), err_msg=f"call {n}")
        np.testing.assert_equal(state(), plain_state(), err_msg=f"after call {n}")
        if n % 2:
            plain_change()
            change()


# -- bound anew by another function ----------------------------------------------------------------------------------
def number_read_elsewhere():
    n = 1.0

    def bump():
        nonlocal n
        n += 1

    def read():
        return n

    def f(x):
        bump()
        return x * read() + n

    return f, lambda: n, bump


def array_bound_anew():
    a = np.ones(3)

    def double():
        nonlocal a
        a = a * 2

    def f(x):
        double()
        return x * a

    return f, lambda: a, double


def list_exchanged():
    first, other = [1.0], [5.0]

    def exchange():
        nonlocal first, other
        first, other = other, first

    def f(x):
        exchange()
        first.append(2.0)
        return x + sum(first) - len(other)

    return f, lambda: (first, other), exchange


def one_list_under_two_names():
    first, other = [1.0], [5.0]

    def same():
        nonlocal first
        first = other

    def f(x):
        same()
        return x + sum(first)

    def change():
        other.append(3.0)

    return f, lambda: (first, other, first is other), change


def function_bound_anew():
    def one(x):
        return x + 1

    def two(x):
        return x * 2

    current = one

    def turn():
        nonlocal current
        current = two if current is one else one

    def f(x):
        turn()
        return current(x)

    return f, lambda: current is one, turn


def deleted():
    n: float = 1.0

    def drop():
        nonlocal n
        del n

    def f(x):
        nonlocal n
        n = 3.0
        y = x * n
        drop()
        try:
            return y + n
        except NameError:
            n = 2.0
            return y

    return f, lambda: n, nothing


# -- by code that is not traced --------------------------------------------------------------------------------------
def manager_as_decorator():
    st, n = {"n": 1.0}, 1.0

    @contextlib.contextmanager
    def set_to(value):
        nonlocal n
        old = st["n"], n
        st["n"], n = value, value + 1
        try:
            yield
        finally:
            st["n"], n = old

    @set_to(3.0)
    def f(x):
        return x * st["n"] + n

    def change():
        st["n"] += 1

    return lambda x: f(x) + st["n"], lambda: (st, n), change


def manager_object_as_decorator():
    st = [1.0]

    class Pushed(contextlib.ContextDecorator):
        def __enter__(self):
            st.append(4.0)

        def __exit__(self, *_):
            st.pop()

    @Pushed()
    def f(x):
        return x * sum(st) + len(st)

    return lambda x: f(x) + len(st), lambda: st, lambda: st.append(2.0)


def kept_results():
    st = {"n": 1.0}

    @functools.cache
    def count(k):
        st["n"] += 1
        return k * st["n"]

    return lambda x: x * count(2) + st["n"], lambda: st, count.cache_clear


def cached_property_that_counts():
    st = [0.0]

    class A:
        @functools.cached_property
        def p(self):
            st.append(2.0)
            return len(st)

    a = A()

    def f(x):
        return x * a.p + sum(st) + len(st)

    return f, lambda: st, lambda: a.__dict__.pop("p", None)


def factory_of_a_dict():
    st = {"n": 1.0}

    def make():
        st["n"] += 1
        return st["n"]

    d = collections.defaultdict(make)

    def f(x):
        return x * d["q"] + st["n"] + len(d)

    return f, lambda: (st, d, d.default_factory is make), lambda: d.clear()


def special_methods_of_a_metaclass():
    st = {"n": 1.0}

    class Meta(type):
        def __getitem__(cls, k):
            return st["n"] * k

        def __len__(cls):
            return int(st["n"])

        def __iter__(cls):
            return iter([st["n"], 2.0])

        def __contains__(cls, k):
            return k == st["n"]

        def __call__(cls, *args):
            st["n"] += 1
            return super().__call__(*args)

        @property
        def q(cls):
            return st["n"]

        def method(cls):
            return st["n"]

    class A(metaclass=Meta):
        def __init__(self):
            self.v = st["n"]

    def f(x):
        return x * A[2] + len(A) + sum(A) + (3.0 in A) + A.q + A.method() + A().v + st["n"]

    def change():
        st["n"] += 2

    return f, lambda: st, change


# -- what lists names --------------------------------------------------------------------------------------------------
class Bag:
    def total(self) -> Any:
        return sum(self.__dict__.values())


def new_dict_of_an_object():
    a = Bag()
    a.w = 2.0

    def change():
        a.__dict__ = {"w": a.w * 2}

    return lambda x: x * a.total() + vars(a)["w"] + a.__dict__["w"], lambda: a.w, change


def names_of_a_module():
    m = types.ModuleType("m")
    m.a = 1.0

    def f(x):
        return x * sum(v for n, v in vars(m).items() if n[0] != "_") + len([n for n in dir(m) if n[0] != "_"])

    return f, lambda: len(vars(m)), lambda: setattr(m, f"c{len(vars(m))}", 2.0)


def names_of_a_class():
    class B:
        u = 1.0

    o = B()

    def f(x):
        listed = [getattr(o, n) for n in dir(o) if n[0] != "_"]
        return x * sum(v for n, v in vars(B).items() if n[0] != "_") + sum(listed)

    return f, lambda: len(vars(B)), lambda: setattr(B, f"c{len(vars(B))}", 2.0)


def names_of_an_objects_class():
    class B:
        u = 1.0

    o = B()
    return lambda x: x * len(dir(o)), lambda: len(vars(B)), lambda: setattr(B, f"c{len(vars(B))}", 2.0)


def names_of_globals():
    def f(x):
        return x * (globals().get("_COUNTED") or 1.0) + len([n for n in globals() if n.startswith("_COUNTED")])

    def change():
        globals()["_COUNTED"] = (globals().get("_COUNTED") or 1.0) + 1

    globals().pop("_COUNTED", None)
    return f, lambda: None, change


# -- what is stored outside --------------------------------------------------------------------------------------------
def lists_swapped_between_objects():
    a, b = Bag(), Bag()
    a.l, b.l = [1.0], [2.0, 3.0]
    first, second = a.l, b.l

    def f(x):
        a.l, b.l = b.l, a.l
        return x + sum(a.l)

    return f, lambda: (a.l is first, b.l is second, a.l, b.l), lambda: a.l.append(1.0)


def list_in_a_new_dict():
    st: dict[str, Any] = {"l": [1.0]}
    first = st["l"]

    def f(x):
        st["new"] = {"old": st["l"], "n": [2.0]}
        return x + sum(st["l"])

    return f, lambda: (st["new"]["old"] is first, st), lambda: first.append(1.0)


def function_and_list_in_a_tuple():
    d: dict[str, Any] = {}
    l = [1.0]

    def g(v):
        return v + sum(l)

    def f(x):
        d["t"] = g, l
        return d["t"][0](x)

    return f, lambda: (d["t"][0] is g, d["t"][1] is l), lambda: l.append(1.0)


def deep_copy_after_a_change():
    o = Bag()
    o.l = [1.0, 2.0]

    def f(x):
        o.l.append(7.0)
        return x + sum(copy.deepcopy(o).l) + sum(copy.copy(o).l)

    return f, lambda: o.l, lambda: o.l.append(1.0)


def function_made_within():
    st, d = {"k": 1.0}, {}

    def f(x):
        d["f"] = lambda v: v * st["k"]
        return x * d["f"](1.0)

    def change():
        st["k"] += 1

    return f, lambda: (d["f"](2.0), type(d["f"].__globals__)), change


def keywords_of_a_partial():
    p = functools.partial(lambda x, k: x * k, k=1.0)

    def f(x):
        p.keywords["k"] += 5.0
        return p(x)

    return f, lambda: p.keywords, lambda: p.keywords.update(k=2.0)


def defaults_of_a_function():
    def g(x, *, k=1.0):
        return x * k

    def f(x):
        g.__kwdefaults__["k"] += 3.0
        return g(x)

    return f, lambda: g.__kwdefaults__, lambda: g.__kwdefaults__.update(k=2.0)


def what_a_class_holds_already():
    class A:
        last: Any = None

    class B(A):
        pass

    calls = [0]

    def f(x):
        A.last = "f"
        B.n = 1.0
        return x + B.n

    def change():
        calls[0] += 1
        if calls[0] == 2:
            A.last = None
            del B.n

    return f, lambda: (A.last, vars(B).get("n")), change


PROGRAMS = [
    lists_swapped_between_objects, list_in_a_new_dict, function_and_list_in_a_tuple, deep_copy_after_a_change,
    function_made_within, keywords_of_a_partial, defaults_of_a_function, what_a_class_holds_already,
    number_read_elsewhere, array_bound_anew, list_exchanged, one_list_under_two_names, function_bound_anew, deleted,
    manager_as_decorator, manager_object_as_decorator, kept_results, cached_property_that_counts, factory_of_a_dict,
    special_methods_of_a_metaclass, new_dict_of_an_object, names_of_a_module, names_of_a_class,
    names_of_an_objects_class,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_another_function_changes_is_seen(program: Program):
    check(program)


def test_all_global_names_count():
    plain, _, change = names_of_globals()
    compiled = tj.jit(plain)
    try:
        for _ in range(4):
            np.testing.assert_array_equal(compiled(X), plain(X))
            change()
    finally:
        globals().pop("_COUNTED", None)


# -- at random ---------------------------------------------------------------------------------------------------------
def random_program(seed: int) -> Program:
    """Functions that share variables (a number, an array, a list, a dict, a function), read and change them, and call
    each other.
    """
    rng = random.Random(seed)
    reads = ["n", "a.sum()", "a[0]", "sum(l)", "len(l)", "sum(d.values())", "d.get('k', 0.0)", "g(1.0)", "len(m)"]
    stores = [
        "n = n + 1.0", "n = len(l) * 1.0", "a = a * 2", "a = a + n", "l = l + [n]", "l.append(n)", "l = m",
        "m, l = l, m", "d['k'] = n", "d = dict(d, k2=n)", "d['l'] = sum(l)", "g = (lambda y, k=n: y + k)", "l[0] = n",
        "m.append(2.0)", "d.pop('k', None)",
    ]  # fmt: skip
    lines = ["def make():", "    n, a, l, m, d = 1.0, np.ones(3), [1.0, 2.0], [3.0], {'k': 1.0}"]
    lines += ["    g = lambda y: y * n"]
    kinds = ["", "", "@functools.cache", "@around()"]
    for k in range(4):
        kind = rng.choice(kinds) if k < 3 else ""
        pure = kind == "@functools.cache"
        lines += [f"    {kind}"] if kind else []
        lines += [f"    def h{k}(y):", "        nonlocal n, a, l, m, d, g"]
        for _ in range(rng.randrange(1, 4)):
            choice = rng.random()
            if choice < (0.5 if not pure else 0.2):
                lines.append(f"        {rng.choice(stores)}")
            elif choice < 0.8 and k:
                lines.append(f"        y = y + h{rng.randrange(k)}({'1.0'})")
            else:
                lines.append(f"        y = y + {rng.choice(reads)}")
        lines.append("        return y")
    lines += [
        "    def f(x):",
        f"        x = x * {rng.choice(reads)} + h3(1.0)",
        f"        return x + {rng.choice(reads)} + h{rng.randrange(4)}(2.0)",
        "    def change():",
        "        nonlocal n, a, l, m, d, g",
        f"        {rng.choice(stores)}",
        "    return f, lambda: (n, a, list(l), list(m), dict(d), l is m, g(1.0)), change",
    ]

    @contextlib.contextmanager
    def around():
        yield

    scope: dict[str, Any] = {"np": np, "functools": functools, "around": around, "__name__": __name__}
    exec(compile("\n".join(lines), f"<program {seed}>", "exec"), scope)
    return scope["make"]


@pytest.mark.parametrize("block", range(8))
def test_random_functions_that_share_variables(block: int):
    for seed in range(25 * block, 25 * block + 25):
        try:
            check(random_program(seed), 4)
        except AssertionError as error:
            raise AssertionError(f"program {seed}: {error}") from error


def test_a_variable_that_gets_its_first_value_later_is_followed():
    @tj.jit
    def f(x):
        try:
            return x * late
        except NameError:
            return x - 1

    answers = [float(f(np.ones(1))[0])]
    late = 5
    answers.append(float(f(np.ones(1))[0]))
    del late
    answers.append(float(f(np.ones(1))[0]))
    late = 6
    answers.append(float(f(np.ones(1))[0]))
    assert answers == [0, 5, 0, 6]
    assert late == 6
