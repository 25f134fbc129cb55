"""Functions that a block reaches in some way or other, and what they change: in a branch, in loops, always."""

import functools

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded
from tracejit.support.errors import TracerError

REACHED = {
    "context variable": ("    g = contextvars.ContextVar('g')\n    g.set(add)", "g.get()(1.0)"),
    "slice": ("    g = slice(add)", "g.stop(1.0)"),
    "enumeration": (
        "    class E(enum.Enum):\n        A = 1\n\n        def p(self):\n            return add(1.0)",
        "E.A.p()",
    ),
    "inherit": (
        """
    class B:
        def p(self, w): return add(w)
    class C(B): pass
    o = C()
""",
        "o.p(1.0)",
    ),
    "super": (
        """
    class B:
        def p(self, w): return add(w)
    class C(B):
        def p(self, w): return super().p(w)
    o = C()
""",
        "o.p(1.0)",
    ),
    "property": (
        """
    class C:
        @property
        def p(self): return add(1.0)
    o = C()
""",
        "o.p",
    ),
    "static": (
        """
    class C:
        @staticmethod
        def p(w): return add(w)
    o = C()
""",
        "o.p(1.0)",
    ),
    "static2": (
        """
    class C:
        p = staticmethod(add)
    o = C()
""",
        "C.p(1.0)",
    ),
    "cached": (
        """
    class C:
        @functools.cached_property
        def p(self): return add(1.0)
""",
        "C().p",
    ),
    "partialmethod": (
        """
    class C:
        def q(self, w): return add(w)
        p = functools.partialmethod(q, 1.0)
    o = C()
""",
        "o.p()",
    ),
    "new": (
        """
    class C:
        def __new__(cls): add(1.0); return object.__new__(cls)
""",
        "(C() and 1.0)",
    ),
    "meta": (
        """
    class M(type):
        def __call__(cls): return add(1.0)
    class C(metaclass=M): pass
""",
        "C()",
    ),
    "sdm": (
        """
    class C:
        @functools.singledispatchmethod
        def p(self, w): return add(w)
    o = C()
""",
        "o.p(1.0)",
    ),
    "jit": (
        """
    g = tj.jit(add)
""",
        "g(1.0)",
    ),
    "pjit": (
        """
    g = functools.partial(tj.jit(add))
""",
        "g(1.0)",
    ),
    "sd": (
        """
    g = functools.singledispatch(add)
""",
        "g(1.0)",
    ),
    "sm": (
        """
    g = staticmethod(add)
""",
        "g(1.0)",
    ),
    "vec": (
        """
    g = np.vectorize(add)
""",
        "float(g(1.0))",
    ),
    "mp": (
        """
    g = types.MappingProxyType({'a': add})
""",
        "g['a'](1.0)",
    ),
    "dv": (
        """
    d = {'a': add}
    g = d.values()
""",
        "list(g)[0](1.0)",
    ),
    "wr": (
        """
    g = weakref.ref(add)
""",
        "g()(1.0)",
    ),
    "nc": (
        """
    g = contextlib.nullcontext(add)
""",
        "g.enter_result(1.0)",
    ),
    "exc": (
        """
    g = ValueError(add)
""",
        "g.args[0](1.0)",
    ),
    "nested": (
        """
    class A:
        class B:
            @staticmethod
            def p(w): return add(w)
""",
        "A.B.p(1.0)",
    ),
    "classm": (
        """
    class C:
        @classmethod
        def p(cls, w): return add(w)
""",
        "C.p(1.0)",
    ),
}


MADE = """
import contextlib, contextvars, enum, functools, types, weakref

def f(x):
    c = 0.0

    def add(w):
        nonlocal c
        c = c + 1.0
        return w

{made}
    r = 0.0
    for j in range(12):
        if x[j % 3] > 1:
            r += {use}
    if x[0] > 1:
        r = {use}
    for j in range(20):
        {use}
    return r, c
"""


@pytest.mark.filterwarnings("ignore:add was compiled")  # by Python's own run
@pytest.mark.parametrize("way", REACHED)
def test_what_they_change_is_changed_where_they_run(way: str):
    made, use = REACHED[way]
    f = loaded(MADE.format(made=made, use=use))["f"]
    for x in (np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 0.0])):
        assert tj.jit(f)(x) == f(x)


def test_a_block_that_reaches_too_many_objects_is_refused():
    def f(x):
        c = [0.0]
        table = {str(i): (i, str(i)) for i in range(70000)}
        if x[0] > 1:
            c[0] = c[0] + 1.0 + table["5"][0]
        return c[0]

    with pytest.raises(TracerError, match="reaches more than 65,536 objects of Python's"):
        tj.jit(f)(np.ones(2))


def test_what_a_function_with_a_cache_changes_is_refused():
    def f(x):
        c = 0.0

        @functools.lru_cache
        def counted(w):
            nonlocal c
            c = c + 1.0
            return w

        r = 0.0
        if x[0] > 1:
            r = counted(1.0)
        return r, c

    with pytest.raises(TracerError, match="changes a variable of an enclosing function"):
        tj.jit(f)(np.ones(2))


def test_numbers_that_objects_say():
    def f(x):
        class Value:
            def __init__(self, v):
                self.v = v

            def __float__(self):
                return float(self.v)

            def __int__(self):
                return int(self.v)

            def __bool__(self):
                if self.v > 1:
                    return True
                return False

        a, b = Value(x[0]), Value(x[-1])
        return float(a), int(b), bool(a), 1.0 if b else 2.0

    for x in (np.array([0.5, 2.5]), np.array([3.0, 1.0])):
        assert tj.jit(f)(x) == f(x)
