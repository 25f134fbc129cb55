"""State of Python's objects that loops and branches make, move or reach on the way: lazily made attributes and keys,
iterators of all kinds, objects that the function has put outside, classes of objects.  Plain Python's answer, or an
error that says so.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import io
import itertools
import random
import re
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import differs
from tracejit.support.errors import TracejitError, UnsupportedError


class Box:
    pass


class Phase(enum.Enum):
    A = 1
    B = 2


G: Any = Box()
D: dict[Any, Any] = {}

COUNTED = {
    "number of NumPy's": "d['w'] = d.get('w', np.float64(0)) + 1; s += v * d['w']",
    "tuple": "d['t'] = (d['t'][0] + 1,) if 't' in d else (0,); s += v * d['t'][0]",
    "doubled tuple": "d['t'] = (d['t'][0] * 2,) if 't' in d else (1.,); s += v * d['t'][0]",
    "phase": "d['p'] = Phase.B if d.get('p') is Phase.A else Phase.A; s += v * d['p'].value",
    "list": "d['L'] = d.get('L', []) + [1]; s += v * len(d['L'])",
    "list by setdefault": "h = d.setdefault('h', []); h.append(1); s += v * len(h)",
    "array": "o.a = getattr(o, 'a', np.zeros(2)) + 1; s += v * o.a[0]",
    "array by setdefault": "d.setdefault('c', np.zeros(1)); d['c'][0] += 1; s += v * d['c'][0]",
    "function": "d['f'] = np.cos if d.get('f') is np.sin else np.sin; s += d['f'](v)",
    "extent": "d['n'] = d.get('n', len(x)) - 1; s += v * d['n']",
    "two values": "a, b = d.get('ab', (0., 1.)); d['ab'] = (b, a + b * .5); s += v * a",
    "delay": "s += d['p'] if 'p' in d else 0.\n        if 'q' in d: d['p'] = d['q']\n        d['q'] = v",
    "delay of arrays": "s += d.get('p', z)[0]; d['p'] = d.get('q', z); d['q'] = v * np.ones(2)",
    "delay in a tuple": "y = getattr(o, 'z', (0., 0.)); o.z = (y[1], v); s += y[0] + v",
    "idempotent": "d['t'] = v * 2; s += d['t']",
}


def same(plain: Any, compiled: Any, *arguments: Any, silent_only: bool = True) -> bool:
    """Whether both do the same; an error that says why not counts if only silence is looked for."""
    one, other = copy.deepcopy(arguments), copy.deepcopy(arguments)
    want = plain(*one)
    try:
        got = compiled(*other)
    except TracejitError:
        return silent_only
    return differs(np.asarray(got), np.asarray(want), 1e-9 * max(1.0, float(np.max(np.abs(want))))) is None


def program(text: str, before: str = "") -> Any:
    """A loop over x with these statements."""
    from tests.generators.harness import loaded

    lines = [
        "def f(x):",
        f"    {before}d = {{}}; o = Box(); z = np.zeros(2); s = x[0] * 0",
        "    for v in x:",
        f"        {text}",
        "    return s",
    ]
    names = loaded(f"import numpy as np\nfrom {__name__} import Box, Phase, G, D\n" + "\n".join(lines) + "\n")
    return names["f"]


@pytest.mark.parametrize("name", COUNTED)
def test_state_under_new_names(name: str):
    f = program(COUNTED[name])
    jitted: Any = tj.jit(f)
    for n in (12, 3, 100, 12, 7):
        assert same(f, jitted, np.linspace(-2.0, 3.0, n), silent_only=False), n


def cycle_again(x: Any) -> Any:
    sign, s = itertools.cycle([1.0, -1.0]), x[0] * 0
    for _ in range(2):
        s += next(sign) * x[0]
    for v in x:
        s = s * 0.5 + next(sign) * v
    return s


def read(values: Any) -> Any:
    for v in values:  # its place is on the generator's stack alone
        yield v + 0.0


SIX = [1.0, 1.0, 2.0, 2.0, 2.0, 0.5] * 30
ITERATORS = {
    "generator": lambda: read(SIX),
    "generator expression": lambda: (w for row in [SIX, SIX] for w in row),
    "product": lambda: map(sum, itertools.product([0.0, 1.0, 5.0], [2.0, 3.0, 5.0], SIX)),
    "permutations": lambda: map(sum, itertools.permutations([1.0, 4.0, 9.0, 7.0, 2.0, 3.0], 2)),
    "combinations": lambda: map(sum, itertools.combinations(range(20), 2)),
    "cycle": lambda: itertools.cycle([1.0, -1.0, 3.0]),
    "tee": lambda: itertools.tee(SIX)[1],
    "count": lambda: itertools.count(1.0, 0.5),
    "chain": lambda: itertools.chain([1.0], SIX),
    "zip_longest": lambda: (a + b for a, b in itertools.zip_longest([1.0], SIX, fillvalue=0.0)),
    "accumulate": lambda: itertools.accumulate(SIX),
    "deque": lambda: iter(collections.deque(SIX)),
    "OrderedDict": lambda: iter(OrderedDict.fromkeys(range(150))),
    "reversed deque": lambda: reversed(collections.deque(SIX)),
    "matches": lambda: (float(m.group()) for m in re.finditer("[0-9]", "1123581321" * 20)),
    "ndindex": lambda: (float(sum(k)) for k in np.ndindex(20, 9)),
    "flat": lambda: np.arange(180.0).flat,
    "random": lambda: (r.random() for r in itertools.repeat(random.Random(1))),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_move_on_in_loops(name: str):
    make = ITERATORS[name]

    def loop(x: Any) -> Any:
        it, s = make(), x[0] * 0
        for i in range(len(x)):
            s = s * 0.5 + next(it) * x[i]
        return s

    def branch(x: Any) -> Any:
        it = make()
        if x[0] > 100:
            next(it)
        return x * next(it)

    for f in (loop, branch):
        jitted: Any = tj.jit(f)
        for n in (9, 30, 3, 9):
            assert same(f, jitted, np.linspace(0.5, 3.0, n)), n


def test_a_cycle_that_has_gone_round():
    jitted: Any = tj.jit(cycle_again)
    for n in (9, 30, 3):
        assert same(cycle_again, jitted, np.linspace(0.5, 3.0, n))


def test_an_input_of_zip_longest_that_has_ended_does_not_crash():
    def f(x: Any) -> Any:
        it, s = itertools.zip_longest([1.0], [1.0, 1.0, 2.0] * 300, fillvalue=0.0), x[0] * 0
        for i in range(len(x)):
            s = s * 0.5 + next(it)[1] * x[i]
        return s

    assert same(f, tj.jit(f), np.arange(40.0))


class Rng(random.Random):
    pass


class Text(io.StringIO):
    pass


def test_state_of_objects_of_c():
    def drawn(x: Any) -> Any:
        r, s = Rng(3), x[0] * 0
        for v in x:
            s = s + r.random() * v
        return s

    def written(x: Any) -> Any:
        t, s = Text(), x[0] * 0
        for v in x:
            t.write("a")
            s = s + len(t.getvalue()) * v
        return s

    def boxed(x: Any) -> Any:
        box, s = np.empty(1, dtype=object), x[0] * 0
        box[0] = 0
        for v in x:
            box[0] = box[0] + 1
            s = s + box[0] * v
        return s

    def ordered(x: Any) -> Any:
        od, s = OrderedDict([(1, 1.0), (2, 2.0), (3, 3.0)]), x[0] * 0
        for v in x:
            k = next(iter(od))
            od.move_to_end(k)
            s = s + k * v
        return s

    def called(x: Any) -> Any:
        p, s = functools.partial(int), x[0] * 0
        p.count = 0  # type: ignore[attr-defined]
        for v in x:
            p.count += 1  # type: ignore[attr-defined]
            s = s + v * p.count  # type: ignore[attr-defined]
        return s

    for f in (drawn, written, boxed, ordered, called):
        jitted: Any = tj.jit(f)
        for n in (9, 30, 3):
            assert same(f, jitted, np.linspace(0.5, 3.0, n)), f.__name__


class Counter:
    def __init__(self) -> None:
        self.n, self.items = 0, [0.0]


def test_objects_that_are_kept_outside():
    def counted(x: Any) -> Any:
        G.acc = Counter()
        s = x[0] * 0
        for v in x:
            G.acc.n += 1
            s = s + v * G.acc.n
        n = G.acc.n
        G.acc = None
        return s + n

    def branch(x: Any) -> Any:
        G.acc = Counter()
        if x[0] > 100:
            G.acc.n = 5
        n = G.acc.n
        G.acc = None
        return x * n

    def appended(x: Any) -> Any:
        G.acc = []
        for _ in x:
            G.acc.append(1)
        n = len(G.acc)
        G.acc = None
        return x * n

    def keyed(x: Any) -> Any:
        D["acc"] = {"n": 0}
        for _ in x:
            D["acc"]["n"] += 1
        n = D.pop("acc")["n"]
        return x * n

    def given(x: Any) -> Any:
        G.acc = [0.0]
        y = G.acc if x[0] > 0 else [5.0]
        y[0] = 7.0
        r = G.acc[0]
        G.acc = None
        return r * x

    G.acc = None
    for f in (counted, branch, appended, keyed, given):
        jitted: Any = tj.jit(f)
        for n in (9, 30, 3):
            assert same(f, jitted, np.linspace(0.5, 3.0, n)), f.__name__


class Idle:
    def go(self) -> float:
        self.__class__ = Busy  # type: ignore[assignment]
        return 1.0


class Busy:
    def go(self) -> float:
        self.__class__ = Idle  # type: ignore[assignment]
        return -1.0


def test_classes_of_objects():
    def loop(x: Any) -> Any:
        o, s = Idle(), x[0] * 0
        for v in x:
            s = s + v * o.go()
        return s

    def branch(x: Any) -> Any:
        o = Idle()
        if x[0] > 100:
            o.__class__ = Busy  # type: ignore[assignment]
        return x * o.go()

    for f in (loop, branch):
        jitted: Any = tj.jit(f)
        for n in (9, 30, 3):
            assert same(f, jitted, np.linspace(0.5, 3.0, n))


class Polar(namedtuple("Polar", "x y")):
    def __new__(cls, r: Any, phi: Any) -> Any:
        return super().__new__(cls, r * 2, phi + 1)


def test_named_tuples_that_make_their_fields():
    def f(x: Any) -> Any:
        p = Polar(x[0], x[1])
        for v in x:
            p = p._replace(x=p.x + v)
        return p

    x = np.array([1.0, 2.0, 4.0, 5.0, 6.0])
    got, want = tj.jit(f)(x), f(x)
    assert type(got) is Polar
    assert tuple(got) == tuple(want)


def test_slices_of_other_numbers():
    f: Any = tj.jit(lambda x, s: np.arange(s.start, s.stop, s.step) * x)
    x = np.arange(4)
    for _ in range(3):
        for s in (slice(0, 4, 1), slice(0.0, 4.0, 1.0)):
            assert f(x, s).dtype == (np.arange(s.start, s.stop, s.step) * x).dtype
        f.finish()


def test_chains_of_in_and_is():
    def f(x: Any) -> Any:
        t, u, p = (1.0, 2.0), (1.0, 2.0), [(1.0, 2.0)]
        q = p
        return x * (t == u in (t, (3.0, 4.0))) + (p is q is p) + (t in p in [p])

    assert np.array_equal(tj.jit(f)(np.arange(3.0)), f(np.arange(3.0)))


def test_elements_are_read_after_what_follows_a_break():
    def f(x: Any, y: Any) -> Any:
        s = x[0] * 0
        u, v = y * 1, y * 0
        for a in x:
            s = s + a
            if s > 1000:
                break
            u, v = v, u
            u[0] = a
            x[1:] += 1
        return s

    jitted: Any = tj.jit(f)
    for n in (9, 12, 4):
        assert same(f, jitted, np.arange(1.0, n + 1), np.array([3.0, 4.0, 5.0]), silent_only=False)


def test_a_loop_until_a_list_is_empty_that_data_choose_is_refused():
    def merge(x: Any) -> Any:
        left, right, result = [x[0]], [x[1]], []
        while left and right:
            result.append((left if left[0] <= right[0] else right).pop(0))
        return result + left + right

    with pytest.raises(UnsupportedError, match="may have two names"):
        tj.jit(merge)(np.array([2.0, 1.0]))


def test_an_endless_repeat_never_moves():
    def f(x: Any) -> Any:
        twice = itertools.repeat(2.0)
        s = x[0] * 0
        for v in x:
            s = s * 0.5 + v * next(twice)
        return s + next(twice) if x[0] > 100 else s

    jitted: Any = tj.jit(f)
    for n in (12, 30, 3):
        assert same(f, jitted, np.linspace(0.5, 3.0, n), silent_only=False)
