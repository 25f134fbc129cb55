"""Loops, branches, derivatives, batches and inner functions see what the function around them has changed outside, and
the other way round, wherever it is held.
"""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import LeakedTracerError

# name -> (what makes it, how it is reached)
HOLDERS = {
    "variable": ("h = MAKE", "h"),
    "attribute": ("o = Bag(); o.h = MAKE", "o.h"),
    "class": ("class C: h = MAKE", "C.h"),
    "dict": ("d = {'h': MAKE}", "d['h']"),
    "list": ("l = [0, MAKE]", "l[1]"),
    "tuple": ("t = (0, MAKE)", "t[1]"),
    "namespace": ("s = SimpleNamespace(h=MAKE)", "s.h"),
    "attribute of an attribute": ("o = Bag(); o.o = Bag(); o.o.h = MAKE", "o.o.h"),
}
# name -> (what is held, a change, what is read)
HELD = {
    "dict": ("{'k': 2.0}", "H['k'] += 3.0", "H['k']"),
    "new key": ("{'k': 2.0}", "H['n'] = 3.0", "sum(H.values())"),
    "list": ("[2.0]", "H.append(1.0)", "sum(H) * len(H)"),
    "set": ("{2.0}", "H.add(len(H) + 5.0)", "sum(H)"),
    "array": ("{'a': np.full(3, 2.0)}", "H['a'] = H['a'] + 1.0", "H['a']"),
    "arrays": ("[np.full(3, 2.0)]", "H.append(np.full(3, 1.0 * len(H)))", "H[-1]"),
}
# name -> (compiled, plainly): `r` reads
AROUND = {
    "fori_loop": ("tj.lax.fori_loop(0, 2, lambda i, v: v * r(), x)", "x * r() * r()"),
    "while_loop": (
        "tj.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * r()), (0, x))[1]", "x * r() * r()"
    ),
    "scan": ("tj.lax.scan(lambda c, v: (c + v * r(), v), x, np.ones((2, 3)))[0]", "x + r() + r()"),
    "cond": ("tj.lax.cond(x.sum() >= 0, lambda v: v * r(), lambda v: v - r(), x)", "x * r()"),
    "grad": ("tj.grad(lambda v: (v * r()).sum())(x)", "np.zeros(3) + r()"),
    "vmap": ("tj.vmap(lambda v: v * r())(np.stack([x, x]))", "np.stack([x, x]) * r()"),
    "jvp": ("tj.jvp(lambda v: v * r(), (x,), (x,))[1]", "x * r()"),
    "jit": ("tj.jit(lambda v: v * r())(x)", "x * r()"),
    "grad of fori_loop": (
        "tj.grad(lambda v: tj.lax.fori_loop(0, 2, lambda i, w: w * r(), v).sum())(x)", "np.zeros(3) + r() * r()"
    ),
}  # fmt: skip
# what is changed inside of them
WITHIN = {
    "grad": ("tj.grad(change)(x.sum()) + x", "change(0.0) * 0 + 2.0 + x"),
    "vmap": ("tj.vmap(change)(x)", "change(x)"),
    "jit": ("tj.jit(change)(x)", "change(x)"),
    "jvp": ("tj.jvp(change, (x,), (x,))[0]", "change(x)"),
}


class Bag:
    pass


def make(source: str, compiled: bool) -> tuple[Any, Any, Any]:
    scope: dict[str, Any] = {"np": np, "tj": tj, "Bag": Bag, "SimpleNamespace": SimpleNamespace, "__name__": __name__}
    exec(compile(textwrap.dedent(source), "<program>", "exec"), scope)
    f, state, between = scope["make"]()
    return (tj.jit(f) if compiled else f), state, between


def check(source: str, plain: str) -> None:
    f, state, between = make(source, compiled=True)
    g, expected, plain_between = make(plain, compiled=False)
    for n in range(4):
        x = np.arange(3.0) + n
        np.testing.assert_allclose(f(x.copy()), g(x.copy()), err_msg=f"call {n}")
        np.testing.assert_equal(state(), expected(), err_msg=f"after call {n}")
        if n == 2:
            between()
            plain_between()


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("held", HELD)
def test_what_the_function_changed_is_seen_inside(holder: str, held: str):
    made, place = HOLDERS[holder]
    content, change, read = (text.replace("H", place) for text in HELD[held])
    for around in AROUND:
        for before in (False, True):  # whether the place was read before
            source = f"""
            def make():
                {made.replace("MAKE", content)}
                def r(): return {read}
                def f(x):
                    y = {"x * r()" if before else "x"}
                    {change}
                    z = AROUND
                    return y + z + r()
                def between():
                    {change}
                return f, lambda: {place}, between
            """
            check(*(source.replace("AROUND", text) for text in AROUND[around]))


def test_an_array_made_inside_is_used_after_if_it_depends_on_no_argument():
    held = {"a": np.ones(3)}

    def change(v: Any) -> Any:
        held["a"] = held["a"] + 1.0
        return v * 2.0

    compiled = tj.jit(lambda x: tj.vmap(change)(x) + held["a"])
    for count in (2, 3):
        assert compiled(np.ones(3)).tolist() == [2.0 + count] * 3
        assert held["a"].tolist() == [count] * 3


def test_an_array_made_of_an_argument_inside_is_not_used_after():
    held = {"a": np.ones(3)}

    def change(v: Any) -> Any:
        held["a"] = held["a"] + v
        return v * 2.0

    with pytest.raises(LeakedTracerError):
        tj.jit(lambda x: tj.vmap(change)(x) + held["a"])(np.ones(3))
    assert held["a"].tolist() == [1.0] * 3


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("held", [name for name in HELD if not name.startswith("array")])
def test_what_is_changed_inside_is_seen_by_the_function(holder: str, held: str):
    made, place = HOLDERS[holder]
    content, change, read = (text.replace("H", place) for text in HELD[held])
    for within in WITHIN:
        source = f"""
        def make():
            {made.replace("MAKE", content)}
            def r(): return {read}
            def change(v):
                {change}
                return v * 2.0
            def f(x):
                y = WITHIN
                return y + r()
            def between():
                {change}
            return f, lambda: {place}, between
        """
        check(*(source.replace("WITHIN", text) for text in WITHIN[within]))
