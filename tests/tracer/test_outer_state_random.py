"""Random programs that read objects outside of them, called while these change, against plain Python.

Two worlds are made from one text.  In one the function runs as it is, in the other compiled; the same random statements
change both, and after each the results are compared, and what the worlds hold.

`python tests/tracer/test_outer_state_random.py COUNT [FIRST]` runs so many programs and prints the count.
"""

from __future__ import annotations

import linecache
import os
import random
import sys
import traceback
import types
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

X = np.arange(3.0)
CALLS = 30

WORLD = """
import functools, os
from array import array
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple
import numpy as np
import tracejit as tj

Pair = namedtuple("Pair", "a b")

class Three(NamedTuple):
    a: object
    b: object
    c: object = 1.5

@dataclass
class Record:
    a: object
    b: object
    k: float = 2.0

@dataclass(slots=True)
class Slotted:
    a: object
    b: object

class Base:
    alpha = 2.0
    names = ["x", "y"]
    w = np.ones(3)
    @property
    def prop(self): return self.alpha * 2
    def scale(self): return self.alpha + 1
    @staticmethod
    def static(): return 3.0
    @classmethod
    def made(cls): return cls.alpha + 4

class Plain(Base):
    def __init__(self, a, b): self.a, self.b = a, b
    def __getitem__(self, i): return self.a if i == 0 else self.b
    @functools.cached_property
    def once(self): return total(self.a) * np.ones(3)
    @functools.lru_cache(maxsize=4)
    def kept(self, n): return np.arange(3.0) * n

class Items(list): pass
class Names(dict): pass

def total(v):
    if v is None: return 0.25
    if isinstance(v, bool): return 3.0 if v else 5.0
    if isinstance(v, int): return v * 2 if v > 2 else v + 0.5
    if isinstance(v, float): return v
    if isinstance(v, str): return float(len(v)) + (0.5 if v.startswith("b") else 0.0)
    if isinstance(v, np.ndarray): return (v * v).sum()
    if isinstance(v, (bytearray, array)): return float(sum(v))
    if isinstance(v, (set, frozenset)): return sum(total(x) for x in sorted(v, key=str))
    if isinstance(v, (dict, UserDict, ChainMap, MappingProxyType)):
        s = 0.0
        for n, (k, x) in enumerate(v.items()): s = s + (n + 1) * total(x) + 0.125 * total(k)
        return s + len(v)
    if isinstance(v, (list, tuple, deque, UserList)):
        s = 0.0
        for n, x in enumerate(v): s = s + (n + 1) * total(x)
        return s + len(v)
    if isinstance(v, Enum): return total(v.value)
    if isinstance(v, SimpleNamespace): return total(v.a) - total(v.b)
    if isinstance(v, functools.partial): return v()
    if isinstance(v, (Plain, Record, Slotted)): return total(v.a) * 2 + total(v.b)
    if callable(v): return v(2.0)
    raise TypeError(type(v))

def state(v, seen=None):
    seen = {} if seen is None else seen
    if isinstance(v, np.ndarray): return v.tolist()
    if v is None or isinstance(v, (bool, int, float, str, bytes, np.generic)): return v
    if id(v) in seen: return "again"
    seen[id(v)] = v
    if isinstance(v, (set, frozenset)): return sorted(map(str, v))
    if isinstance(v, (dict, UserDict, ChainMap, MappingProxyType)):
        return [(str(k), state(x, seen)) for k, x in v.items()]
    if isinstance(v, (list, tuple, deque, UserList, bytearray, array)): return [state(x, seen) for x in v]
    if isinstance(v, Enum): return state(v.value, seen)
    if isinstance(v, Slotted): return state((v.a, v.b), seen)
    if isinstance(v, functools.partial): return state((v.args, v.keywords), seen)
    if hasattr(v, "__dict__") and not isinstance(v, type): return state(dict(sorted(vars(v).items())), seen)
    return type(v).__name__
"""


FORMS = [  # of the function's end: what is outside is read anywhere
    *["return x + {}"] * 12,
    "if x.sum() > 2: x = x + {}\n    return x",
    "for v in (1.0, 2.0, 3.0):\n        if x[0] < 50 * v: x = x + {}\n    return x",
    "n = x[0]\n    while n < 2:\n        x = x + {}\n        n += 1\n    return x",
]


class Writer:
    """A random world: text that makes objects, the terms of a function that reads them,
    and statements that change them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.setup: list[str] = []
        self.terms: list[str] = []  # of the function's sum
        self.effects: list[str] = []  # statements of the function
        self.changes: list[Callable[[], str]] = []
        self.watched: list[str] = []  # whose state is compared
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    # -- values --------------------------------------------------------------------------------------------------------
    def leaf(self) -> str:
        draw = self.draw
        return draw.choice([
            lambda: repr(float(draw.randrange(4))), lambda: repr(draw.randrange(6)), lambda: repr(draw.random() < 0.5),
            lambda: repr("ab"[draw.randrange(2)] * draw.randrange(1, 3)), lambda: "None",
            lambda: f"np.full(3, {draw.randrange(4)}.0)", lambda: f"np.full(3, {draw.randrange(4)}.0)",
            lambda: f"np.arange({draw.randrange(2, 4)})", lambda: f"np.array({draw.randrange(5)}.5)",
            lambda: f"np.float32({draw.randrange(5)})",
        ])()  # fmt: skip

    def hashable(self) -> str:
        return self.draw.choice(
            [
                repr(self.draw.randrange(6)),
                repr("ab"[self.draw.randrange(2)] * self.draw.randrange(1, 4)),
                "2.5",
                "None",
            ]
        )

    def value(self, depth: int) -> str:
        """An expression that makes a value, and nothing but it: see `place` for what can be done to it."""
        draw = self.draw
        if depth <= 0 or draw.random() < 0.35:
            return self.leaf()
        inside = lambda: self.value(depth - 1)  # noqa: E731
        some = lambda: [inside() for _ in range(draw.randrange(1, 4))]  # noqa: E731
        pairs = lambda: ", ".join(f"{key}: {inside()}" for key in self.keys())  # noqa: E731
        return draw.choice([
            lambda: f"[{', '.join(some())}]", lambda: f"[{', '.join(some())}]",
            lambda: "{" + pairs() + "}", lambda: "{" + pairs() + "}",
            lambda: f"({inside()}, {inside()})", lambda: f"Pair({inside()}, {inside()})",
            lambda: f"Three({inside()}, {inside()})", lambda: "OrderedDict({" + pairs() + "})",
            lambda: "defaultdict(float, {" + pairs() + "})",
            lambda: f"Counter({''.join(draw.choice('abc') for _ in range(5))!r})",
            lambda: f"deque([{', '.join(some())}])", lambda: f"{{{', '.join(self.hashable() for _ in range(3))}}}",
            lambda: f"Items([{', '.join(some())}])", lambda: "Names({" + pairs() + "})",
            lambda: f"Record({inside()}, {inside()})", lambda: f"Slotted({inside()}, {inside()})",
            lambda: f"Plain({inside()}, {inside()})", lambda: f"SimpleNamespace(a={inside()}, b={inside()})",
            lambda: "MappingProxyType({" + pairs() + "})",
            lambda: f"bytearray({bytes(draw.randrange(9) for _ in range(3))!r})",
            lambda: f"array('d', [{draw.randrange(5)}, 2])", lambda: "UserDict({" + pairs() + "})",
            lambda: f"UserList([{', '.join(some())}])", lambda: "ChainMap({" + pairs() + "}, {'z': 1})",
            lambda: f"functools.partial(total, {inside()})",
        ])()  # fmt: skip

    def keys(self) -> list[str]:
        return self.draw.sample(["'a'", "'b'", "'c'", "1", "(2, 3)"], self.draw.randrange(1, 4))

    def root(self, access: str, depth: int = 3) -> str:
        """Let what is at `access` be read and changed.  An expression that makes its first value."""
        self.terms.append(f"total({access})")
        self.watched.append(access)
        self.changes.append(lambda: f"{access} = {self.value(self.draw.randrange(depth + 1))}")
        for _ in range(3):
            self.changes.append(lambda: f"change({access!r}, {self.draw.randrange(10**6)})")
        return self.value(depth)

    # -- where values are kept
    # ---------------------------------------------------------------------------------------------------
    def build(self) -> None:
        draw = self.draw
        parts = [
            self.a_global, self.an_instance, self.a_class, self.an_inherited, self.a_closure, self.a_default,
            self.a_keyword_default, self.a_partial, self.a_function_attribute, self.a_module, self.the_environment,
            self.a_method, self.a_property, self.a_helper, self.an_enum, self.a_long_list, self.a_deciding_array,
            self.what_may_be_missing, self.a_nested_function, self.an_argument, self.an_unusual_name,
            self.an_unbound_variable,
        ]  # fmt: skip
        effects = [
            self.a_cache, self.a_lazy_attribute, self.a_cached_property, self.a_cached_function, self.a_counter,
            self.a_log, self.a_nonlocal,
        ]  # fmt: skip
        for part in draw.sample(parts, draw.randrange(2, 6)):
            part()
        if draw.random() < 0.4:
            draw.choice(effects)()

    def a_global(self) -> None:
        name = self.name("G")
        self.setup.append(f"{name} = {self.root(name)}")

    def an_instance(self) -> None:
        name = self.name("obj")
        kind = self.draw.choice(["Plain", "Record", "Slotted"])
        self.setup.append(f"{name} = {kind}({self.root(f'{name}.a')}, {self.root(f'{name}.b', 1)})")

    def a_class(self) -> None:
        name = self.name("Config")
        self.setup.append(
            f"class {name}:\n    alpha = {self.root(f'{name}.alpha')}\n    class Inner:\n        beta = 1.0"
        )
        self.setup.append(f"{name}.Inner.beta = {self.root(f'{name}.Inner.beta', 1)}")

    def an_inherited(self) -> None:
        name, below = self.name("Above"), self.name("Below")
        self.setup.append(
            f"class {name}(Base):\n    k = {self.root(f'{below}.k', 2)}\nclass {below}({name}):\n    pass"
        )
        self.changes.append(lambda: f"{name}.k = {self.leaf()}")
        self.changes.append(lambda: f"{below}.k = {self.leaf()}")
        self.changes.append(lambda: f"if 'k' in {below}.__dict__: del {below}.k")

    def a_closure(self) -> None:
        name, cell = self.name("closure"), self.name("c")
        self.setup.append(
            f"def make_{name}():\n    {cell} = {self.value(2)}\n    def {name}(): return total({cell})\n"
            f"    def set_{name}(v):\n        nonlocal {cell}\n        {cell} = v\n    return {name}, set_{name}\n"
            f"{name}, set_{name} = make_{name}()"
        )
        self.terms.append(f"{name}()")
        self.changes.append(lambda: f"set_{name}({self.value(2)})")
        self.changes.append(lambda: f"{name}, set_{name} = make_{name}()")

    def an_unusual_name(self) -> None:
        name, kind = self.name("thing"), self.name("Kind")
        self.setup.append(f"class {kind}(Plain):\n    __k__ = {self.root(f'{kind}.__k__', 2)}")
        self.setup.append(f"{name} = {kind}(1.0, 2.0)\n{name}.__a__ = {self.root(f'{name}.__a__', 2)}")
        self.setup.append(f"other.__k__ = {self.root('other.__k__', 2)}")
        self.terms += [f"total({name}.__k__)", f"total(getattr({name}, '__a__'))", "total(other.__k__)"]
        self.changes.append(lambda: f"{kind}.__k__ = {self.value(1)}")
        self.changes.append(lambda: f"{name}.__k__ = {self.value(1)}")
        self.changes.append(lambda: f"vars({name}).pop('__k__', None)")
        self.changes.append(lambda: f"{name}.__a__ = {self.value(1)}")

    def an_unbound_variable(self) -> None:
        name = self.name("unbound")
        self.setup.append(
            f"def make_{name}():\n    def {name}():\n        try: return total(v)\n"
            "        except NameError: return 7.0\n"
            f"    def set_{name}(*new):\n        nonlocal v\n        v = 0\n        if new: v, = new\n"
            "        else: del v\n"
            f"    if False: v = 0\n    return {name}, set_{name}\n{name}, set_{name} = make_{name}()"
        )
        self.terms.append(f"{name}()")
        self.changes.append(lambda: f"set_{name}({self.value(1)})")
        self.changes.append(lambda: f"set_{name}()")

    def a_default(self) -> None:
        name = self.name("default")
        self.setup.append(f"def {name}(x, k={self.value(2)}, m={self.leaf()}): return total(k) + total(m) + x")
        self.terms.append(f"{name}(x)")
        self.changes.append(lambda: f"{name}.__defaults__ = ({self.value(2)}, {self.leaf()})")
        self.changes.append(lambda: f"change('{name}.__defaults__[0]', {self.draw.randrange(10**6)})")

    def a_keyword_default(self) -> None:
        name = self.name("keywords")
        self.setup.append(f"def {name}(x, *, k={self.value(1)}): return total(k) + x")
        self.terms.append(f"{name}(x)")
        self.changes.append(lambda: f"{name}.__kwdefaults__ = dict(k={self.value(1)})")
        self.changes.append(lambda: f"{name}.__kwdefaults__['k'] = {self.value(1)}")

    def a_partial(self) -> None:
        name = self.name("part")
        self.setup.append(
            f"def of_{name}(a, x, k=1.0): return total(a) + total(k) * x"
            f"\n{name} = functools.partial(of_{name}, {self.value(2)}, k={self.leaf()})"
        )
        self.terms.append(f"{name}(x)")
        self.changes.append(lambda: f"{name}.keywords['k'] = {self.value(1)}")
        self.changes.append(lambda: f"change('{name}.args[0]', {self.draw.randrange(10**6)})")
        self.changes.append(lambda: f"{name} = functools.partial(of_{name}, {self.value(1)}, k={self.leaf()})")

    def a_function_attribute(self) -> None:
        name = self.name("helper")
        self.setup.append(f"def {name}(x): return total({name}.k) + x\n{name}.k = {self.root(f'{name}.k', 2)}")
        self.terms.append(f"{name}(x)")

    def a_module(self) -> None:
        self.setup.append(f"other.k = {self.root('other.k', 2)}")
        self.setup.append("def of_other(): return total(getattr(other, 'extra', 1.5))")
        self.terms.append("of_other()")
        self.changes.append(lambda: f"other.extra = {self.leaf()}")
        self.changes.append(lambda: "vars(other).pop('extra', None)")

    def the_environment(self) -> None:
        name = f"TRACEJIT_TEST_{self.name('V')}"
        self.terms += [
            f"float(os.environ.get({name!r}, 2))", f"float(os.getenv({name!r}, '4'))",
            f"(1.0 if {name!r} in os.environ else 0.0)",
        ]  # fmt: skip
        self.setup.append(f"os.environ.pop({name!r}, None)")
        self.changes.append(lambda: f"os.environ[{name!r}] = '{self.draw.randrange(5)}'")
        self.changes.append(lambda: f"os.environ.pop({name!r}, None)")

    def a_method(self) -> None:
        name, kind = self.name("thing"), self.name("Kind")
        self.setup.append(
            f"class {kind}(Plain):\n    def run(self, x): return x + total(self.a)\n{name} = {kind}({self.value(1)}, "
            "1.0)"
        )
        self.terms += [
            f"{name}.run(x)",
            f"{name}.scale()",
            f"{name}.static()",
            f"{kind}.made()",
            f"{name}.made()",
            f"{kind}.static()",
        ]
        self.changes.append(lambda: f"{kind}.run = lambda self, x: x * {self.draw.randrange(5)}.0 + total(self.b)")
        self.changes.append(lambda: f"{name}.run = lambda x: x - {self.draw.randrange(5)}.0")
        self.changes.append(lambda: f"vars({name}).pop('run', None)")
        self.changes.append(lambda: f"{kind}.scale = lambda self: {self.draw.randrange(5)}.0")
        self.changes.append(lambda: f"{kind}.static = staticmethod(lambda: {self.draw.randrange(5)}.0)")
        self.changes.append(lambda: f"{kind}.alpha = {self.draw.randrange(5)}.0")
        self.changes.append(lambda: f"{name}.__class__ = {self.draw.choice([kind, f'{kind}2'])}")
        self.setup.append(f"class {kind}2({kind}):\n    def run(self, x): return x + 100")

    def a_property(self) -> None:
        name, kind = self.name("thing"), self.name("Kind")
        self.setup.append(f"class {kind}(Plain): pass\n{name} = {kind}(1.0, 2.0)")
        self.terms += [f"{name}.prop", f"total({name}.w)", f"total({name}.names)"]
        self.changes.append(lambda: f"{kind}.prop = property(lambda self: self.alpha + {self.draw.randrange(5)})")
        self.changes.append(lambda: f"{kind}.w = {self.leaf()}")
        self.changes.append(lambda: f"{name}.w = {self.leaf()}")
        self.changes.append(lambda: f"{name}.alpha = {self.draw.randrange(5)}")
        self.changes.append(lambda: f"vars({name}).clear()")
        self.changes.append(lambda: f"{kind}.names = {self.draw.choice(['[]', '[1.0]', '[2.0, 3]'])}")

    def a_helper(self) -> None:
        name, cell = self.name("func"), self.name("K")
        self.setup.append(f"{cell} = {self.root(cell, 1)}\ndef {name}(x): return x + total({cell})")
        self.terms.append(f"{name}(x)")
        self.changes.append(lambda: f"def {name}(x): return x * {self.draw.randrange(4)}.0 + total({cell})")
        self.changes.append(lambda: f"{name}.__code__ = (lambda x: x - {self.draw.randrange(4)}.0).__code__")

    def an_enum(self) -> None:
        name = self.name("Mode")
        self.setup.append(
            f"class {name}(Enum):\n    A = {self.value(2)}\nclass Of{name}(Enum):\n    A = 1\n    B = "
            f"'b'\nCHOSEN_{name} = Of{name}.A"
        )
        self.terms += [f"total({name}.A)", f"total(CHOSEN_{name})", f"(2.0 if CHOSEN_{name} is Of{name}.B else 4.0)"]
        self.changes.append(lambda: f"CHOSEN_{name} = Of{name}.{self.draw.choice('AB')}")
        self.changes.append(lambda: f"change('{name}.A.value', {self.draw.randrange(10**6)})")

    def a_long_list(self) -> None:
        name, size = self.name("L"), self.draw.choice([300, 700, 3000])
        self.setup.append(f"{name} = list(map(float, range({size})))")
        self.terms += [f"total({name}[{size // 2}])", f"float(len({name}))", f"{name}[-1]"]
        self.changes.append(lambda: f"{name}[{self.draw.choice([0, size // 2, -1])}] = {self.draw.randrange(9)}.0")
        self.changes.append(lambda: f"{name}.append({self.draw.randrange(9)}.0)")
        self.changes.append(lambda: f"{name}.reverse()")

    def a_deciding_array(self) -> None:
        name, size = self.name("D"), self.draw.choice([3, 200, 5000])
        self.setup.append(f"{name} = np.zeros({size}, {self.draw.choice(['int', 'np.int32', 'np.uint8', 'bool'])})")
        self.terms += [f"(2.0 if {name}[{size - 1}] > 0 else 3.0)", f"x[int({name}[1])]"]
        self.changes.append(lambda: f"{name}[{self.draw.choice([0, 1, size - 1])}] = {self.draw.randrange(2)}")
        self.changes.append(lambda: f"{name} = {name}.copy()")
        self.changes.append(lambda: f"{name} = {name}[::-1]")

    def what_may_be_missing(self) -> None:
        name, key = self.name("holder"), self.name("k")
        self.setup.append(f"{name} = Plain(1.0, 2.0); table_{name} = {{}}")
        self.terms += [
            f"total(getattr({name}, {key!r}, 1.5))",
            f"(4.0 if hasattr({name}, {key!r}) else 6.0)",
            f"total(table_{name}.get({key!r}))",
        ]
        self.terms += [f"(1.0 if hasattr(Plain, {key!r}) else 0.0)"]
        self.changes.append(lambda: f"{name}.{key} = {self.leaf()}")
        self.changes.append(lambda: f"vars({name}).pop({key!r}, None)")
        self.changes.append(lambda: f"Plain.{key} = {self.leaf()}")
        self.changes.append(lambda: f"table_{name}[{key!r}] = {self.leaf()}")
        self.changes.append(lambda: f"table_{name}.clear()")

    def a_nested_function(self) -> None:
        name = self.name("outer")
        self.setup.append(
            f"def {name}(scale):\n    def inner(x): return x * scale + total(inner.k)\n    inner.k = 1.0\n    return "
            "inner\n"
            f"made_{name} = {name}({self.draw.randrange(4)}.0)\nlist_{name} = [made_{name}, {name}(2.0)]"
        )
        self.terms += [f"made_{name}(x)", f"list_{name}[-1](x)"]
        self.changes.append(lambda: f"made_{name} = {name}({self.draw.randrange(4)}.0)")
        self.changes.append(lambda: f"made_{name}.k = {self.leaf()}")
        self.changes.append(lambda: f"list_{name}.append({name}({self.draw.randrange(4)}.0))")
        self.changes.append(lambda: f"list_{name}[-1].k = {self.leaf()}")

    def an_argument(self) -> None:
        """An object that is passed: a constant of the signature, whose attributes are read."""
        name = self.name("passed")
        self.setup.append(
            f"{name} = Plain({self.root(f'{name}.a', 2)}, 1.0)\ndef use_{name}(x, model): return x + total(model.a) + "
            "model.scale()"
        )
        self.setup.append(f"use_{name} = tj.jit(use_{name}) if COMPILED else use_{name}")
        self.terms.append(f"use_{name}(x, {name})")

    # -- what the function changes
    # -----------------------------------------------------------------------------------------------
    def a_cache(self) -> None:
        name = self.name("CACHE")
        self.setup.append(f"{name} = {{}}; W_{name} = np.arange(3.0)")
        key = self.draw.choice(["len(x)", "'key'", "x.shape"])
        made = self.draw.choice(
            ["np.arange(3.0) * 2", f"W_{name} + 1", "[1.0, np.ones(3)]", "7.5", f"(W_{name} * 3, 2)"]
        )
        self.effects.append(f"if {key} not in {name}: {name}[{key}] = {made}")
        self.terms.append(f"total({name}[{key}])")
        self.changes.append(lambda: f"{name}.clear()")
        self.changes.append(lambda: f"change({name!r}, {self.draw.randrange(10**6)}, strict=False)")
        self.watched.append(name)

    def a_lazy_attribute(self) -> None:
        name = self.name("lazy")
        self.setup.append(f"{name} = Plain(np.arange(3.0), None)")
        made = self.draw.choice([f"{name}.a * 2", "np.ones(3)", "3.5", f"[{name}.a + 1]"])
        self.effects.append(f"if {name}.b is None: {name}.b = {made}")
        self.terms.append(f"total({name}.b)")
        self.changes.append(lambda: f"{name}.b = None")
        self.changes.append(lambda: f"{name}.a = np.full(3, {self.draw.randrange(4)}.0)")
        self.watched.append(name)

    def a_cached_property(self) -> None:
        name = self.name("once")
        self.setup.append(f"{name} = Plain({self.value(1)}, None)")
        self.terms += [f"{name}.once", f"total({name}.once)"]
        self.changes.append(lambda: f"vars({name}).pop('once', None)")
        self.changes.append(lambda: f"{name}.a = {self.value(1)}")
        self.changes.append(lambda: f"{name} = Plain({self.value(1)}, None)")
        self.watched.append(name)

    def a_cached_function(self) -> None:
        name = self.name("kept")
        self.setup.append(
            f"K_{name} = 2.0\n@functools.lru_cache(maxsize=2)\ndef {name}(n, m=1): return np.arange(3.0) * n * "
            f"K_{name} + m\n"
            f"obj_{name} = Plain(1.0, 2.0)"
        )
        self.terms += [f"{name}(3)", f"{name}(2, m=len(x))", f"obj_{name}.kept(2)"]
        self.changes.append(lambda: f"K_{name} = {self.draw.randrange(4)}.0")
        self.changes.append(lambda: f"{name}.cache_clear()")
        self.changes.append(lambda: f"{name}({self.draw.randrange(9)})")
        self.changes.append(lambda: f"obj_{name} = Plain(1.0, 2.0)")

    def a_counter(self) -> None:
        name = self.name("count")
        where, first = self.draw.choice(
            [
                (f"{name}.b", f"Plain(1.0, {self.draw.randrange(3)})"),
                (f"{name}['n']", "{'n': 0}"),
                (f"{name}[0]", "[0, 1]"),
            ]
        )
        self.setup.append(f"{name} = {first}")
        self.effects.append(f"{where} += 1")
        self.terms.append(f"total({where})")
        self.changes.append(lambda: f"{where} = {self.draw.randrange(4)}")
        self.watched.append(name)

    def a_log(self) -> None:
        name = self.name("LOG")
        how, first = self.draw.choice([
            (f"{name}.append(len({name}))", "[1.0]"), (f"{name}.append(len({name}))", "[np.ones(3)]"),
            (f"{name}.append(2)", "deque([1], 4)"),
            (f"{name}.add(len({name}))", "{0}"), (f"{name}['n'] += 1", "Counter()"),
            (f"{name}[len({name})]", "defaultdict(float)"),
        ])  # fmt: skip
        self.setup.append(f"{name} = {first}")
        self.effects.append(how)
        if self.draw.random() < 0.5:
            self.terms.append(f"total({name})")
        self.watched.append(name)

    def a_nonlocal(self) -> None:
        name = self.name("step")
        self.setup.append(
            f"def make_{name}():\n    n = 0\n    def {name}():\n        nonlocal n\n        n += 1\n        return "
            "float(n)\n"
            f"    return {name}\n"
            f"{name} = make_{name}()"
        )
        self.terms.append(f"{name}()")

    def text(self) -> str:
        self.build()
        self.draw.shuffle(self.terms)
        body = "".join(f"    {line}\n" for line in self.effects)
        terms = " + ".join(self.terms or ["1"])
        form = self.draw.choice(FORMS).format(terms)
        return WORLD + "\n".join(self.setup) + f"\ndef f(x):\n{body}    {form}\n"


class World:
    """One of the two: a module made from the text."""

    def __init__(self, text: str, compiled: bool) -> None:
        self.compiled = compiled
        name = f"world_{'compiled' if compiled else 'plain'}"
        self.module: Any = types.ModuleType(name)
        self.module.other = types.ModuleType(name + "_other")
        self.module.COMPILED = compiled
        self.module.change = self.change
        self.environment = dict(os.environ)
        sys.modules[name] = self.module
        file = f"<{name} {zlib.crc32(text.encode())}>"
        linecache.cache[file] = len(text), None, text.splitlines(True), file  # so that its source is known
        exec(compile(text, file, "exec"), self.module.__dict__)
        self.jitted = tj.jit(self.module.f) if compiled else self.module.f

    def run(self, statement: str) -> str:
        """Change something; the name of the exception if it cannot be done."""
        try:
            self.within(lambda: exec(statement, self.module.__dict__))
        except Exception as error:
            return type(error).__name__
        return ""

    def call(self) -> Any:
        try:
            return self.within(lambda: np.asarray(self.jitted(X), float))
        except (AttributeError, KeyError, IndexError, TypeError, NameError, ValueError) as error:
            return type(error).__name__

    def within(self, do: Callable[[], Any]) -> Any:
        """Each world has an environment of its own."""
        sys.modules[self.module.__name__] = self.module
        before = dict(os.environ)
        self._set(self.environment)
        try:
            return do()
        finally:
            self.environment = dict(os.environ)
            self._set(before)

    def _set(self, wanted: dict[str, str]) -> None:
        for key in os.environ.keys() - wanted.keys():
            del os.environ[key]
        for key, item in wanted.items():
            if os.environ.get(key) != item:
                os.environ[key] = item

    def state(self, expressions: list[str]) -> Any:
        found = []
        for expression in expressions:
            try:
                found.append((expression, repr(self.module.state(eval(expression, self.module.__dict__)))))
            except Exception as error:
                found.append((expression, type(error).__name__))
        return found

    def change(self, access: str, seed: int, strict: bool = True) -> None:
        """Change something within what is at `access`, in place."""
        draw = random.Random(seed)
        value = eval(access, self.module.__dict__)
        for _ in range(draw.randrange(4)):
            inner = self.inner(value)
            if not inner:
                break
            value = draw.choice(inner)
        alter(value, draw)

    def inner(self, value: Any) -> list[Any]:
        if isinstance(value, (dict, types.MappingProxyType)) or type(value).__name__ in ("UserDict", "ChainMap"):
            return list(value.values())
        if isinstance(value, (list, tuple)) or type(value).__name__ in ("deque", "UserList"):
            return list(value)
        if type(value).__name__ == "partial":
            return list(value.args)
        if isinstance(value, np.ndarray) or not hasattr(value, "a"):
            return []
        return [value.a, value.b]


def alter(value: Any, draw: random.Random) -> None:
    """A random change of an object in place, if it can be changed."""
    number: Any = draw.choice([1.0, 2, True, "a", None, 3.5])
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        value[...] = draw.randrange(4)
    elif isinstance(value, dict) or kind in ("UserDict", "ChainMap"):
        keys = list(value)
        how = draw.randrange(4)
        if how == 0 and keys:
            value[draw.choice(keys)] = 4 if kind == "Counter" else number
        elif how == 1:
            value[draw.choice("abcde")] = 3 if kind == "Counter" else number
        elif how == 2 and keys:
            del value[keys[0]]
        elif keys and kind == "OrderedDict":
            value.move_to_end(keys[0])
        elif keys:
            value[keys[0]] = value.pop(keys[0])
    elif isinstance(value, list) or kind in ("deque", "UserList"):
        how = draw.randrange(4)
        if how == 0 and len(value):
            value[draw.randrange(len(value))] = number
        elif how == 1:
            value.append(number)
        elif how == 2 and len(value):
            value.pop()
        else:
            value.reverse()
    elif isinstance(value, set):
        value.add(number) if draw.random() < 0.5 or not value else value.discard(sorted(value, key=str)[0])
    elif kind in ("bytearray", "array"):
        value[0] = draw.randrange(9)
    elif kind in ("Plain", "Record", "Slotted", "SimpleNamespace"):
        setattr(value, draw.choice("ab"), number)


def run_program(seed: int, calls: int = CALLS) -> int:
    """Compare one random program's calls in both worlds; how many were compared."""
    writer = Writer(seed)
    text = writer.text()
    plain, compiled = World(text, False), World(text, True)
    history: list[str] = []
    for step in range(calls):
        what = (
            f"seed {seed}, call {step}, after "
            f"{history[-3:]}\n{text[text.index('def state') :].split('return type(v).__name__')[1]}"
        )
        for again in range(2):
            expected, found = plain.call(), compiled.call()
            same = (
                expected == found
                if isinstance(expected, str) or isinstance(found, str)
                else np.allclose(expected, found, rtol=1e-12)
            )
            assert same, f"{found} in place of {expected}, {what}, {again}"
            differ = [
                pair
                for pair in zip(plain.state(writer.watched), compiled.state(writer.watched), strict=True)
                if pair[0] != pair[1]
            ]
            assert not differ, f"{differ}, {what}"
        if writer.changes:
            statement = writer.draw.choice(writer.changes)()
            history.append(statement)
            assert plain.run(statement) == compiled.run(statement), what
    return calls


@pytest.mark.filterwarnings("ignore:.*times anew")
@pytest.mark.parametrize("seed", range(24))
def test_a_compiled_function_sees_what_python_sees(seed: int):
    run_program(seed)


def main(arguments: list[str]) -> None:
    warnings.filterwarnings("ignore", message=".*times anew")
    count, first = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 0
    failed = 0
    for seed in range(first, first + count):
        try:
            run_program(seed)
        except Exception as error:
            failed += 1
            print(
                f"seed {seed}: {type(error).__name__}: {error}",
                *traceback.format_tb(error.__traceback__)[-2:],
                flush=True,
            )
    print(f"{count} programs of {CALLS} changes, {failed} failed")


if __name__ == "__main__":
    main(sys.argv[1:])
