"""Functions that a block reaches in some way or other, and what they change: in a branch, in loops, always."""

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded

REACHED = {
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
import contextlib, functools, types, weakref

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
