"""Tuples, named ones too, that are None depending on data: what is asked of them has Python's answer, or is refused."""

from collections import namedtuple
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError, TracerError

Hit = namedtuple("Hit", "place value")


class Found(NamedTuple):
    place: int
    value: float


def finder(kind: Callable[..., Any]) -> Callable[[Any, float], Any]:
    def find(x, t):
        for i in range(len(x)):
            if x[i] > t:
                return kind(i, x[i])
        return None

    return find


def plain(i, v):
    return i, v


KINDS = [plain, Hit, Found]


def is_none(find, x):
    r = find(x, 1.5)
    return r is None, r is not None, r == None, r != None  # noqa: E711


def truth(find, x):
    r = find(x, 1.5)
    return not r, bool(r), 1.0 if r else 2.0


def branch(find, x):
    r = find(x, 1.5)
    if r:
        return r[0]
    return -1


def length(find, x):
    return len(find(x, 1.5))


def added_to(find, x):
    return find(x, 1.5) + (1.0,)


def best(find, x):
    b = None
    for i in range(len(x)):
        f = find(x[i:] if i < 1 else x, 0.5)
        if x[i] > 0.5 and f is not None and (b is None or x[i] < b[1]):
            b = f
    return -1.0 if b is None else float(b[1])


def counted(find, x):
    n = 0
    for s in range(10):
        if find(x, 0.5 + s) is None:
            break
        n += 1
    return n


def while_there(find, x):
    n, r = 0, find(x, 1.5)
    while r and n < 5:
        n += 1
        r = find(x, 1.5 + n)
    return n


def attribute(find, x):
    o = SimpleNamespace(r=None)
    if x[0] > 0.5:
        o.r = find(x, -9.0)
    return o.r is None


def returned(find, x):
    return find(x, 1.5)


def returned_on(find, x):
    r = find(x, 1.5)
    if r is not None and r[1] > 3:
        return r
    return type(find(x, -9.0))(0, 0.0) if False else None


def either(find, x):
    return find(x, 1.5) or find(x, -9.0)


def item_is_none(find, x):
    b = None
    for v in x:
        if v > 1:
            b = v
    t = (b, 1.0)
    for v in x:
        t = (t[0], t[1] + v)
    return t is None, t == None, not t, b is None  # noqa: E711


def asked_and_returned(find, x):
    o, p = None, SimpleNamespace(b=None)
    for i, v in enumerate(x):
        if o is not None and v < o:
            return o, i
        if p.b is not None and v > 4:
            return p.b, i
        if v > 1.5:
            o = v
            p.b = v * 2
    return 0.0, -1


def bound_and_returned(find, x):
    t = 0.0
    for v in x:
        if v > 0.5:
            a = v * 2
            if a > 2:
                return a, t
            t += v
    return t, 0.0


def items_returned(find, x):
    t = find(x, 1.5)
    for v in x:
        if t is not None and v > 2:
            return t[0], t[1] + v
    return 0, 0.0


FUNCTIONS = [
    asked_and_returned, bound_and_returned, items_returned, is_none, truth, branch, length, added_to, best,
    counted, while_there, attribute, returned, returned_on, either, item_is_none,
]  # fmt: skip


def outcome(f: Callable[..., Any], x: Any) -> Any:
    try:
        return f(x)
    except TracerError as error:
        return str(error)
    except TypeError:
        return TypeError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_python(f: Callable[..., Any], kind: Callable[..., Any]):
    find = finder(kind)

    def asked(x):
        return f(find, x)

    jitted = tj.jit(asked)
    for x in (np.arange(3.0), np.zeros(3), np.arange(12.0), np.arange(6.0)[::-1].copy(), np.zeros(3), np.zeros(1)):
        got, want = outcome(jitted, x), outcome(asked, x)
        np.testing.assert_equal(got, want)
        assert (got is None) == (want is None)


def the_class(find, x):
    return isinstance(find(x, 1.5), tuple)


def its_type(find, x):
    return type(find(x, 1.5)) is type(find)


def within(find, x):
    return find(x, 1.5) in [None]


def held(find, x):
    kept = [None, 3]
    return find(x, 1.5) in kept


def any_of(find, x):
    return any([find(x, 1.5)])


def selected(find, x):
    return len([r for r in [find(x, 1.5)] if r])


def a_tuple_with_it(find, x):
    b = None
    for v in x:
        if v > 1:
            b = v
    t = (b, 1.0)
    if x[0] > 1:
        t = (b, 3.0)
    return t[1]


def empty(find, x):
    t = None
    if x[0] > 0:
        t = ()
    return t is None


def empty_ones(find, x):
    for v in x:
        if v > 0:
            return (), ()
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "f",
    [the_class, its_type, within, held, any_of, selected, a_tuple_with_it, empty, empty_ones],
    ids=lambda f: f.__name__,
)
def test_refused(f: Callable[..., Any], kind: Callable[..., Any]):
    find = finder(kind)
    with pytest.raises(TracejitError, match=r"is None here; hand on|None or a tuple|is an empty tuple"):
        tj.jit(lambda x: f(find, x))(np.zeros(3))


def test_what_is_no_matter_of_none_is_answered():
    find = finder(plain)
    assert tj.jit(lambda x: isinstance(find(x, 1.5), np.ndarray))(np.zeros(3)) is False
