"""Random functions that store values of all kinds in places of all kinds outside of themselves, let places change what
they hold, and have their traces start again; against plain Python, with which objects are the same.

`python tests/tracer/test_kept_random.py COUNT [FIRST]` runs so many programs and prints the count.
"""

from __future__ import annotations

import functools
import random
import sys
import types
import warnings
from collections import Counter, OrderedDict, deque, namedtuple
from enum import Enum
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

Pair = namedtuple("Pair", "a b")

WORLD = """
def make():
    class Thing:
        pass
    class Slots:
        __slots__ = ("a", "b")
    class Kind:
        a = np.ones(2)
        b = 1.0
    class Level(Enum):
        LOW = 1
    class Items(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__
    def helper(y):
        return y * 2
    helper.a = 1.0
    o, p, s, low, it = Thing(), Thing(), Slots(), Level.LOW, Items(a=1.0, b=[2.0])
    o.a, o.b, p.a, p.b, s.a, s.b, low.a = np.zeros(2), np.ones(3), [1.0], {"k": 1.0}, np.ones(2), None, 0.0
    v, w = None, np.full(2, 2.0)
    items, table = [np.zeros(2), [1.0], 1.0], {"k": np.ones(2), "l": [3.0]}
    order = OrderedDict(k=1.0)
    count = Counter(a=1)
    row = deque([np.zeros(2), np.ones(2)], 4)
    class One(type):
        made = {}
        def __call__(cls):
            if cls not in cls.made:
                cls.made[cls] = super().__call__()
            return cls.made[cls]
    class Only(metaclass=One):
        def __init__(self):
            self.a = 1.0
            self.b = np.ones(2)
    class Lazy:
        @property
        @functools.lru_cache(None)
        def size(self):
            return o.n if hasattr(o, "n") else 2.0
    class Mode(Enum):
        FUNCTION = ("f", helper)
    lazy = Lazy()
    seen, visited = {1, 9, 17, 33}, {helper}
    table_of = {helper: 1.0, np.sum: [2.0], ("k", helper): np.ones(2)}
    od = order
    def g():
        nonlocal v, w
        BODY_G
    @functools.cache
    def cached(n):
        nonlocal v
        BODY_C
        return n
    o.g = g
    def f(x, n):
        nonlocal v, w
        y = x * 1.0
        BODY
        return y
    def change(which):
        nonlocal v, w
        CHANGES
    def left():
        known = [helper in visited, cached in visited, o in visited, len(visited)]
        others = [list(table_of.values()), list(seen), known, {k.__name__: v for k, v in One.made.items()}]
        others += [Kind.a, Kind.b, items, table, order, count, row]
        return [others, o, p, s, low.__dict__, dict(it), helper.__dict__, v, w]
    return f, left, change
"""
PLACES = [
    "o.a", "o.b", "p.a", "p.b", "s.a", "s.b", "Kind.a", "Kind.b", "low.a", "it.a", "it.b", "helper.a", "v", "w",
    "items[0]", "items[1]", "items[2]", "table['k']", "table['l']", "o.__dict__['c']", "vars(p)['c']", "order['k']",
    "helper.new", "row[0]", "row[1]", "table_of[helper]", "table_of['k', helper]", "table_of[cached]",
    "table_of[o]", "Only().a", "Only().b",
]  # fmt: skip
VALUES = [
    "1.5", "np.arange(2.0)", "np.ones(3)[1:]", "[2.0]", "{'k': np.ones(2)}", "Pair(np.ones(2), 1)", "items", "table",
    "Pair([1.0], items)", "(lambda z: z * 3)", "helper", "types.SimpleNamespace(a=np.zeros(2))", "(o, 1.0)", "np.sin",
    "order", "slice(0, 2)", "functools.partial(helper, y=2.0)", "w", "o.a", "items[0]", "table['l']", "len(items)",
    "f'{x.shape[0]}'", "float(n)", "[np.ones(2)] * 2",
    "frozenset([helper])", "cached", "Only()", "table_of", "Mode.FUNCTION.value", "np.sum", "seen",
]  # fmt: skip
DONE = [
    "seen.add(len(seen) * 8 + 1)", "seen.discard(9)", "visited.add(cached)", "visited.discard(helper)",
    "visited.add(o)",
    "table_of[g] = len(table_of)", "table_of.pop(helper, None)", "Only().n = getattr(Only(), 'n', 0) + 1",
    "items.append(np.ones(1))", "table['n'] = len(table)", "count['a'] += 1", "order['z'] = len(order)",
    "row.rotate(1)",
    "items.reverse()", "items[0], items[1] = items[1], items[0]", "o.a, o.b = o.b, o.a", "o.g()", "cached(1)",
    "cached(int(n))", "Kind.a, s.a = s.a, Kind.a", "helper.calls = getattr(helper, 'calls', 0) + 1",
    "p.__dict__ = {'a': p.a, 'b': p.b, 'c': 1}", "v = [1.0]", "v = None", "q = np.zeros(n)",
    "y = y + (7 if x.shape[0] == 3 else 8)", "y = y + len(f'{x.shape[0]}')", "low.a = (low.a, 1)[1]",
    "it.a = it.b", "od = order", "vars(o).update(d=len(vars(o)))", "y = y + table_of.get(helper, 9.0)",
    "y = y + 2 * (helper in visited) + (cached in visited)", "y = y + sum(k * q for k, q in enumerate(seen))",
    "seen.discard(max(seen))", "y = y + lazy.size", "o.n = 3.0", "y = y + Mode.FUNCTION.value[1](x)",
    "y = y + sum(r(x).sum() for r in visited if r is helper)", "y = y + Only().a",
    "y = y + sum(measure(r) * k for k, r in enumerate(table_of.values()))",
]  # fmt: skip


def statements(rng: random.Random, most: int, *, reads: bool) -> list[str]:
    lines: list[str] = []
    for _ in range(rng.randrange(1, most)):
        choice = rng.random()
        if choice < 0.4:
            values = VALUES if reads else [x for x in VALUES if "x." not in x and "(n)" not in x]
            lines.append(f"{rng.choice(PLACES)} = {rng.choice(values)}")
        elif choice < 0.7:
            lines.append(rng.choice(DONE) if reads else rng.choice(DONE[:16]))
        elif choice < 0.8:
            one, two = rng.sample(PLACES, 2)
            lines.append(f"{one}, {two} = {two}, {one}")
        elif reads:
            lines.append(f"y = y + measure({rng.choice(PLACES)})")
    return lines or ["pass"]


def measure(x: Any, depth: int = 0) -> Any:
    """A number that tells values of most kinds apart."""
    if depth > 3 or x is None or isinstance(x, (str, slice)) or callable(x):
        return 0.5
    if isinstance(x, (bool, int, float)):
        return x * 1.0
    if isinstance(x, np.ndarray):
        return x.sum()
    if isinstance(x, dict):
        return sum(measure(item, depth + 1) for item in list(x.values())) + len(x)
    if isinstance(x, (list, tuple, deque)):
        return sum(measure(item, depth + 1) * k for k, item in enumerate(x, 1))
    return 0.25


def graph(x: Any) -> Any:
    """What is reachable, as text in which equal numbers stand for the same object."""
    known: dict[int, int] = {}
    alive: list[Any] = []

    def text(v: Any) -> str:
        if v is None or isinstance(v, (bool, int, float, str, slice)):
            return f"{type(v).__name__} {v!r}"
        if v is np.sin or type(v) is type or isinstance(v, Enum):
            return str(v)
        if id(v) in known:
            return f"#{known[id(v)]}"
        known[id(v)] = len(known)
        alive.append(v)
        name = f"#{known[id(v)]}={type(v).__name__}"
        if isinstance(v, np.ndarray):
            shared = [
                k for k, other in enumerate(alive) if isinstance(other, np.ndarray) and np.shares_memory(other, v)
            ]
            return f"{name} {v.dtype} {v.tolist()} {shared}"
        if isinstance(v, functools.partial):
            return f"{name}({text(v.func)}, {text(list(v.args))}, {text(v.keywords)})"
        if callable(v):
            return f"{name} {getattr(v, '__name__', '')} {text(dict(getattr(v, '__dict__', {})))}"
        if isinstance(v, dict):
            return name + "{" + ", ".join(f"{text(k)}: {text(item)}" for k, item in v.items()) + "}"
        if isinstance(v, (list, tuple, deque)):
            return name + "[" + ", ".join(map(text, v)) + "]"
        own = {k: getattr(v, k) for k in getattr(v, "__slots__", ()) if hasattr(v, k)}
        return name + text(own or getattr(v, "__dict__", {}))

    return text(x)


def program(seed: int) -> Any:
    """(f, left, change) of a world of its own."""
    rng = random.Random(seed)
    text = WORLD
    blocks = {
        "BODY_G": statements(rng, 3, reads=False),
        "BODY_C": [line for line in statements(rng, 2, reads=False) if "w" not in line.split()] or ["pass"],
        "BODY": statements(rng, 7, reads=True),
        "CHANGES": [f"if which == {k}: {line}" for k, line in enumerate(statements(rng, 4, reads=False))],
    }
    for name, lines in blocks.items():
        indent = next(line for line in text.splitlines() if line.strip() == name)[: -len(name)]
        text = text.replace(f"{indent}{name}\n", "".join(f"{indent}{line}\n" for line in lines))
    scope: dict[str, Any] = {
        "np": np, "types": types, "functools": functools, "Pair": Pair, "measure": measure, "Enum": Enum,
        "OrderedDict": OrderedDict, "Counter": Counter, "deque": deque, "__name__": __name__,
    }  # fmt: skip
    exec(compile(text, f"<kept {seed}>", "exec"), scope)
    return scope["make"](), text


def run_program(seed: int) -> str:
    """Calls one program; "" if all agreed, else why it was left off.  Raises AssertionError."""
    ((plain, expected, change), text), ((traced, left, change_too), _) = program(seed), program(seed)
    compiled = tj.jit(traced)
    for call, (size, n) in enumerate(((2, 1), (2, 1), (3, 2), (4, 1), (3, 3), (5, 2), (2, 2))):
        x = np.arange(float(size))
        try:
            want: Any = plain(x, n)
        except Exception as error:  # a value of another kind than the statement expects
            want = error
        try:
            got: Any = compiled(x, n)
        except TracejitError as error:
            return f"refused: {str(error).splitlines()[0]:.60}"
        except Exception as error:
            got = error
        told = f"program {seed}, call {call}\n{text[text.index('    def g') :]}"
        if isinstance(want, Exception):
            assert type(got) is type(want), f"{told}\n{want!r}\n{got!r}"
            return "raised"
        assert not isinstance(got, Exception), f"{told}\n{got!r}"
        np.testing.assert_allclose(got, want, err_msg=told)
        assert graph(left()) == graph(expected()), f"{told}\n{graph(left())}\n{graph(expected())}"
        try:
            change(call % 4)
        except Exception:
            return "raised"
        change_too(call % 4)
    return ""


@pytest.mark.parametrize("block", range(6))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_random_functions_leave_is_what_python_leaves(block: int):
    found = [run_program(seed) for seed in range(40 * block, 40 * block + 40)]
    assert found.count("") >= 8, Counter(found).most_common(5)


def main(arguments: list[str]) -> None:
    count, first = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    warnings.simplefilter("ignore")
    ends: Counter[str] = Counter()
    for seed in range(first, first + count):
        try:
            ends[run_program(seed)] += 1
        except AssertionError as error:
            ends["WRONG"] += 1
            print(error)
    print(f"{count} programs: {dict(ends.most_common(12))}")


if __name__ == "__main__":
    main(sys.argv[1:])
