"""What a traced function leaves outside of itself, in whatever holds it, is what Python would have left there: the same
objects where they are the same, arrays and not what stands for them, views of what they are views of.
"""

import functools
import json
import textwrap
import types
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError

Program = Callable[[], tuple[Callable[..., Any], Callable[[], Any], Callable[[], Any]]]
"""(a function, what it leaves, what the caller changes between calls)"""

PROGRAMS: dict[str, Program] = {}
Pair = namedtuple("Pair", "a b")


class Thing:
    pass


class Slots:
    __slots__ = ("a", "b", "cur", "old")


@dataclass(slots=True)
class Held:
    a: object


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def nothing() -> None:
    pass


# -- containers that hold themselves -----------------------------------------------------------------------------------
@program
def tree_with_links_back():
    root: Any = {"n": 0, "children": []}
    root["children"].append({"parent": root})

    def f(x):
        root["n"] += 1
        return x + root["children"][0]["parent"]["n"]

    return f, lambda: (root["n"], root["children"][0]["parent"] is root), lambda: root.__setitem__("n", 7)


@program
def ring_of_dicts():
    a: Any = {"v": 1.0}
    b: Any = {"v": 2.0, "next": a}
    a["next"] = b

    def f(x):
        current, steps = a, 0
        while True:
            current, steps = current["next"], steps + 1
            if current is a or steps > 10:
                break
        return x + steps

    return f, nothing, nothing


@program
def ring_of_lists():
    a: Any = [1.0, None]
    b: Any = [2.0, a]
    a[1] = b

    def f(x):
        b[1][0] += 1
        return x + a[0]

    return f, lambda: a[0], nothing


@program
def tuple_that_holds_itself_through_others():
    graph: Any = {"edges": []}
    edge = (graph, 3)
    graph["edges"].append(edge)

    def f(x):
        edge[0]["n"] = edge[0].get("n", 0) + 1
        return x + edge[1] * (graph["edges"][0] is edge) + graph["edges"][0][0]["n"]

    return f, lambda: graph["n"], nothing


# -- the same array, or a view of it -----------------------------------------------------------------------------------
@program
def view_of_an_array_from_outside():
    o: Any = Thing()
    o.grid, o.inner = np.zeros(4), None

    def f(x):
        if o.inner is None:
            o.inner = o.grid[1:]
        return x + o.inner.sum()

    def change():
        o.grid[2] += 1

    return f, lambda: (o.inner, np.shares_memory(o.inner, o.grid)), change


@program
def views_of_all_kinds():
    o: Any = Thing()
    o.grid, o.a = np.zeros((4, 5)), None

    def f(x):
        if o.a is None:
            o.a, o.b, o.c = o.grid.T, o.grid[::-1, 2], o.grid.reshape(2, 10)
            o.d, o.e = o.grid[:, None, 1:3], o.grid[1:].T[::-1]
        return x + o.a.sum() + o.b.sum()

    def change():
        o.grid[2, 2] += 1

    return f, lambda: (o.a, o.b, o.c, o.d, o.e), change


@program
def view_of_an_array_of_rank_0():
    o: Any = Thing()
    o.g, o.w = np.array(1.0), None

    def f(x):
        if o.w is None:
            o.w = o.g[...]
        return x + o.w

    def change():
        o.g[...] += 1

    return f, lambda: (o.w, np.shares_memory(o.g, o.w)), change


@program
def new_array_under_two_names():
    o: Any = Thing()
    o.a = o.b = None

    def f(x):
        if o.a is None:
            o.a = o.b = np.zeros(3)
        return x + o.a.sum() + o.b.sum()

    def change():
        o.a[0] += 1

    return f, lambda: (o.a is o.b, o.a), change


@program
def new_array_in_two_containers():
    h: Any = []
    last: Any = {}

    def f(x):
        z = np.zeros(3)
        if not h:
            h.append(z)
            last["z"] = z
            h.extend([np.zeros(2)] * 2)
            h.append(z[1:])
        return x + last["z"].sum() + h[3].sum()

    def change():
        h[0][1] += 1

    return f, lambda: (h[0] is last["z"], h[1] is h[2], h, last), change


# -- arrays that change places -----------------------------------------------------------------------------------------
def two_buffers(make: Callable[[], Any]) -> Program:
    def build():
        o = make()

        def f(x):
            o.cur, o.old = o.old, o.cur
            return x + o.cur.sum() * 2 + o.old.sum()

        return f, lambda: (o.cur, o.old), nothing

    return build


def _filled(o: Any) -> Any:
    o.cur, o.old = np.zeros(3), np.ones(3)
    return o


PROGRAMS["buffers of an object"] = two_buffers(lambda: _filled(Thing()))
PROGRAMS["buffers of an object with slots"] = two_buffers(lambda: _filled(Slots()))
PROGRAMS["buffers of a class"] = two_buffers(lambda: _filled(type("Buffers", (Thing,), {})))


@program
def buffers_of_variables():
    a, b = np.zeros(3), np.ones(3)

    def f(x):
        nonlocal a, b
        a, b = b, a
        return x + a.sum() * 2 + b.sum()

    return f, lambda: (a, b), nothing


@program
def rotation_of_containers():
    h = [np.zeros(3), np.ones(3), np.full(3, 2.0)]
    d = deque(h)
    e = {"a": np.ones(3), "b": np.zeros(3)}

    def f(x):
        h.append(h.pop(0))
        d.rotate(1)
        e["a"], e["b"] = e["b"], e["a"]
        return x + h[0].sum() * 2 + h[1].sum() + d[0].sum() * 4 + d[2].sum() + e["a"].sum() * 8

    return f, lambda: (h, list(d), e), nothing


@program
def used_and_reset():
    o: Any = Thing()
    o.acc = np.zeros(3)
    d, items = {"m": np.zeros(3)}, [np.zeros(3)]

    def f(x):
        y = x + o.acc.sum() + d["m"].sum() + items[0].sum()
        o.acc = np.ones(3)
        d["m"] = np.ones(3)
        items[0] = np.ones(3)
        return y

    def change():
        o.acc, d["m"], items[0] = np.full(3, 5.0), np.full(3, 6.0), np.full(3, 7.0)

    return f, lambda: (o.acc, d, items), change


# -- holders of all kinds ----------------------------------------------------------------------------------------------
@program
def named_tuple_with_an_array():
    o: Any = Thing()
    o.s = None

    def f(x):
        o.s = Pair(np.zeros(3), 1) if o.s is None else o.s._replace(b=o.s.b + 1)
        return x + o.s.a.sum() + o.s.b

    return f, lambda: o.s, lambda: o.s.a.__setitem__(0, 4)


@program
def holders_made_inside():
    h: Any = []

    def f(x):
        if not h:
            h.append(Held(np.ones(3)))
            h.append(types.SimpleNamespace(a=np.ones(3)))
            h.append(types.MappingProxyType({"a": np.ones(2)}))
            h.append(ValueError(np.ones(2)))
            h.append(Held([Pair(np.ones(2), Held(3))]))
        return x + h[0].a.sum() + h[1].a.sum() + h[2]["a"].sum() + h[3].args[0].sum() + h[4].a[0].a.sum()

    return f, lambda: [h[0].a, h[1].a, dict(h[2]), h[3].args, h[4].a[0].a], lambda: h[0].a.__setitem__(0, 4)


@program
def keys_that_are_numbers_of_an_array():
    o: Any = Thing()

    def f(x):
        o.table = {int(k): 1 for k in np.arange(3)}
        o.count = Counter(int(k) for k in np.arange(4) // 2)
        return x

    return f, lambda: (o.table, [type(k) for k in o.table], o.count), nothing


@program
def class_made_inside():
    o: Any = Thing()
    o.kind = None

    def f(x):
        if o.kind is None:
            z = np.arange(3.0)

            class Made:
                w = z

                def method(self):
                    return (self.w * z).sum()

                @property
                def value(self):
                    return z.sum()

                @staticmethod
                def static(q=z):
                    return q

            o.kind, o.one = Made, Made()
        return x + o.one.method()

    def left():
        return o.kind.w, o.kind().method(), o.one.value, o.kind.static(), o.kind.w is o.kind.static()

    return f, left, nothing


@program
def attributes_of_tuples_and_slices():
    class Row(tuple[Any, ...]):
        note: Any

    o: Any = Thing()

    def f(x):
        z = np.arange(3.0)
        o.row = Row((1, z))
        o.row.note = z
        o.slice = slice(int(z[1]), 5)
        o.partial = functools.partial(len)
        o.partial.note = z
        return x

    def left():
        return o.row, o.row.note is o.row[1], type(o.row).__name__, o.slice, type(o.slice.start), o.partial.note

    return f, left, nothing


@program
def functions_made_inside():
    made: Any = []

    def f(x):
        z = np.ones(3)

        def g(q, z=np.ones(3)):  # noqa: B008
            return q * z.sum()

        if not made:
            made.extend([lambda q: q * z.sum(), g, functools.partial(g, z=z)])
            made.extend([{"c": lambda q: q * z}, (lambda q: q * z, 1)])
        return x + made[0](2.0) + made[1](3.0) + made[2](1.0) + made[3]["c"](2.0).sum() + made[4][0](1.0).sum()

    return f, lambda: [c(2.0) for c in made[:3]] + [made[3]["c"](1.0), made[4][0](2.0)], nothing


@program
def function_in_a_dict_reads_a_variable():
    made: Any = []
    k = [1.0]

    def f(x):
        if not made:
            made.append({"c": lambda z: z * len(k)})
        return x + made[0]["c"](2.0)

    return f, lambda: made[0]["c"](3.0), lambda: k.append(2)


@program
def list_from_outside_in_new_holders():
    v = [1.0]
    pair: Any = None
    held: Any = None
    bound: Any = None

    def g(b):
        return len(b)

    def f(x):
        nonlocal pair, held, bound
        pair, held, bound = Pair(1, v), Held(v), functools.partial(g, b=v)
        return x + len(v) + bound()

    def left():
        return pair.b is v, held.a is v, bound.keywords["b"] is v, bound.func is g

    return f, left, lambda: pair.b.append(3.0)


@program
def tuple_from_outside():
    items = [1.0]
    one = (None, items)
    other: Any = None

    def f(x):
        nonlocal other
        other = one
        return x + len(other[1])

    return f, lambda: other is one, lambda: items.append(1.0)


@program
def what_stands_for_names():
    o: Any = Thing()

    def helper(x):
        return x + 1

    def f(x):
        o.f, o.m, o.h, o.t = np.sin, np, helper, (helper, np.cos)
        return x + o.f(0.0) + o.m.cos(0.0)

    return f, lambda: (o.f is np.sin, o.m is np, o.h is helper, o.t == (helper, np.cos)), nothing


@program
def bound_method_of_a_list():
    o: Any = Thing()
    items = [1.0]

    def f(x):
        o.add = items.append
        o.add(2.0)
        return x + len(items)

    return f, lambda: (o.add.__self__ is items, items), lambda: o.add(3.0)


@program
def objects_that_hold_each_other():
    root: Any = Thing()
    root.kids = ()
    items = [2.0]

    def f(x):
        kid: Any = Thing()
        kid.parent, kid.items = root, items
        root.kids = (*root.kids, kid)
        own: Any = Thing()
        own.a = [own, items]
        root.own = own
        return x + len(root.kids)

    def left():
        return len(root.kids), root.kids[0].parent is root, root.kids[0].items is items, root.own.a[1] is items

    return f, left, nothing


# -- containers with attributes, dicts of attributes -------------------------------------------------------------------
@program
def containers_with_attributes():
    o: Any = Thing()
    o.layers, o.active, o.count = OrderedDict(w=1.0), None, Counter()

    def f(x):
        o.active = o.layers
        o.active["k"] = 2.0
        o.current = o.count
        o.current["a"] += 1
        return x + len(o.layers) + o.count["a"]

    def left():
        return o.layers, o.active is o.layers, o.count, o.current is o.count

    return f, left, lambda: o.layers.pop("k")


@program
def containers_with_attributes_change_places():
    o: Any = Thing()
    o.a, o.b = OrderedDict(w=1.0), OrderedDict(w=2.0)
    first = o.a

    def f(x):
        o.a, o.b = o.b, o.a
        o.a, o.b = o.b, o.a
        return x + o.a["w"]

    return f, lambda: o.a is first, nothing


@program
def dict_of_attributes_is_read():
    o: Any = Thing()
    o.items, o.w = [1.0], np.ones(3)

    def f(x):
        o.items.append(2.0)
        total = sum(np.sum(v) for v in vars(o).values())
        return x + total + len(o.__dict__) + ("items" in vars(o)) + ("q" in vars(o))

    return f, lambda: dict(vars(o)), lambda: setattr(o, "q", 1.0)


@program
def dict_of_attributes_is_changed():
    o: Any = Thing()
    o.items, o.n = [1.0], 1.0

    def f(x):
        d = vars(o)
        d["n"] += 1
        d["k"] = d["n"] * 2
        o.items.append(d.pop("z", 3.0))
        d.update(m=o.k)
        e, unpacked, joined, copied = dict(d), {**vars(o)}, d | {"u": 1.0}, d.copy()
        total = o.n + e["k"] + unpacked["m"] + len(joined) + len(copied) + copied["items"][-1]
        return x + total + (vars(o) == e) + (o.__dict__ is d)

    return f, lambda: dict(vars(o)), lambda: setattr(o, "z", o.n)


@program
def dict_of_attributes_is_shared():
    shared = {"n": 1.0}

    class Borg:
        n: float

        def __init__(self) -> None:
            self.__dict__ = shared

    b = Borg()

    def f(x):
        c = Borg()
        c.n += 1
        return x + b.n + c.n

    return f, lambda: dict(shared), lambda: shared.__setitem__("n", 5.0)


@program
def dict_of_attributes_is_another_objects():
    o: Any = Thing()
    q: Any = Thing()
    o.n = 1.0

    def f(x):
        q.__dict__ = o.__dict__
        q.n += 1
        return x + o.n

    return f, lambda: (o.n, q.n, q.__dict__ is o.__dict__), nothing


@program
def dict_of_attributes_in_a_trace_that_starts_again():
    o: Any = Thing()
    o.n = 0

    def f(x):
        o.n += 1
        o.__dict__["z"] = np.arange(3.0)
        vars(o)["k"] = x.shape[0]
        return x + len(x)

    return f, lambda: o.n, nothing


# -- functions that keep their results ---------------------------------------------------------------------------------
@program
def cached_function_reads_a_list():
    o: Any = Thing()
    o.history, o.current = [1.0], None

    @functools.cache
    def cached(n):
        o.history.append(n)
        return len(o.current)

    def f(x):
        o.current = o.history
        return x + cached(3) + len(o.current)

    return f, lambda: (o.current is o.history, o.history), lambda: o.history.append(2.0)


@program
def cached_function_reads_an_array():
    o: Any = Thing()
    o.a, o.b = np.zeros(3), np.ones(3)

    @functools.cache
    def cached(n):
        return float(o.a.sum())

    def f(x):
        o.a, o.b = o.b, o.a
        return x + cached(3) + o.a.sum()

    return f, lambda: (o.a, o.b), nothing


@program
def cached_property_counts_in_a_class():
    class Grid:
        made = 0

        def __init__(self, n):
            self.n = n

        @functools.cached_property
        def x(self):
            Grid.made += 1
            return np.linspace(0, 1, self.n)

    grids = [Grid(3)]

    def f(x):
        return x * grids[-1].x.sum()

    return f, lambda: Grid.made, lambda: grids.append(Grid(len(grids)))


@program
def cached_function_of_an_extent():
    calls = []

    @functools.cache
    def basis(n):
        calls.append(n)
        return np.cos(np.arange(n))

    return (lambda x: x @ basis(x.shape[0])), lambda: (calls, [type(n) for n in calls]), nothing


# -- attributes of functions, classes, enumerations --------------------------------------------------------------------
@program
def attribute_that_a_function_gets():
    def helper(x):
        helper.n = getattr(helper, "n", 0) + 1
        return x * helper.n + len(str(x.shape[0]))

    return (lambda x: helper(x)), lambda: dict(vars(helper)), nothing


@program
def cache_that_a_function_gets():
    def helper(x):
        if not hasattr(helper, "cache"):
            helper.cache = {}
        if len(x) not in helper.cache:
            helper.cache[len(x)] = np.arange(3.0)
        return x * len(helper.cache) + helper.cache[len(x)].sum()

    return (lambda x: helper(x)), lambda: dict(vars(helper)), nothing


@program
def attribute_that_a_method_gets():
    class Counting:
        def __call__(self, x):
            if not hasattr(Counting.__call__, "n"):
                Counting.__call__.n = 0.0
            Counting.__call__.n += 1
            return x * Counting.__call__.n

        def step(self, x):
            Counting.step.n = getattr(Counting.step, "n", 0) + 1
            return x * Counting.step.n

    counting = Counting()
    return (lambda x: counting.step(x)), lambda: dict(vars(Counting.step)), nothing


@program
def attributes_of_containers():
    q: Any = OrderedDict(a=1.0)
    q.scale = 3.0
    c: Any = Counter(a=1)
    c.n = 0.0

    def f(x):
        c.n += 1
        q["a"] += 1
        c["a"] += 1
        return x * q["a"] * getattr(q, "scale", 1.0) + c.n + len(str(x.shape[0])) + c["a"]

    return f, lambda: (q, dict(vars(q)), c, dict(vars(c))), lambda: setattr(q, "scale", q.scale + 1)


@program
def attributes_of_an_enumeration():
    class Level(Enum):
        LOW = 1

    level: Any = Level
    level.gain = 2.0

    def f(x):
        level.gain += 1
        return x * level.gain + len(str(x.shape[0]))

    return f, lambda: level.gain, lambda: setattr(level, "gain", level.gain + 1)


@program
def class_of_an_object_changes():
    class On:
        pass

    class Off:
        pass

    o: Any = On()

    def f(x):
        o.__class__ = Off if type(o) is On else On
        return x * (2 if type(o) is On else 3) + len(str(x.shape[0]))

    return f, lambda: type(o).__name__, nothing


@program
def data_of_a_class_goes():
    class Data:
        z = 3

    def f(x):
        if hasattr(Data, "z"):
            del Data.z
        else:
            Data.z = 4
        return x * getattr(Data, "z", 10) + len(str(x.shape[0]))

    return f, lambda: getattr(Data, "z", None), nothing


# -- variables that become something else ------------------------------------------------------------------------------
@program
def function_met_later_binds_a_variable():
    o: Any = Thing()
    v: Any = None

    def h():
        nonlocal v
        v = 9.0

    o.h = h

    def f(x):
        nonlocal v
        v = [1.0, 2.0]
        o.h()
        return x + (len(v) if isinstance(v, list) else v)

    return f, lambda: v, nothing


@program
def function_met_later_reads_a_variable():
    o: Any = Thing()
    v: Any = None
    o.h = lambda: len(v)

    def f(x):
        nonlocal v
        v = [1.0]
        k = o.h()
        v = [1.0, 2.0, 3.0]
        return x + k * 10 + o.h()

    return f, lambda: v, nothing


@program
def functions_bind_variables_of_each_other():
    o: Any = Thing()
    v: Any = 0.0
    w: Any = [2.0]

    def h():
        nonlocal w
        w = v
        return len(v)

    o.h = h

    def f(x):
        nonlocal v
        v = w
        k = o.h()
        v = np.ones(3)
        return x + k + len(str(x.shape[0]))

    return f, lambda: (v, w), nothing


@program
def class_of_data_made_inside():
    o: Any = Thing()
    o.kind = None

    def f(x):
        class Base:
            v = np.ones(2)

        class Settings(Base):
            w = np.ones(2)

        if o.kind is None:
            o.kind = Settings
        return x + o.kind.w.sum()

    return f, lambda: (o.kind.w, o.kind.v), nothing


# -- other things that hold state --------------------------------------------------------------------------------------
@program
def array_of_a_member_of_an_enumeration():
    class Level(Enum):
        LOW = 1

    low: Any = Level.LOW

    def f(x):
        low.z = np.ones(1)
        return x + low.z

    return f, lambda: low.z, nothing


@program
def new_dict_of_attributes():
    o: Any = Thing()
    o.a, o.b = 1.0, np.arange(2.0)

    def f(x):
        o.__dict__ = {"a": o.a + 1, "b": o.b, "c": 1}
        o.c = 5
        o.d = len(str(x.shape[0]))
        return x + o.a

    return f, lambda: dict(vars(o)), lambda: setattr(o, "a", 3.0)


@program
def dict_of_attributes_is_put_back():
    o: Any = Thing()
    o.a, o.b = 1.0, np.arange(2.0)

    def f(x):
        old = dict(vars(o))
        o.a = 9
        y = x + o.a + len(str(x.shape[0]))
        o.__dict__ = old
        return y

    return f, lambda: dict(vars(o)), nothing


@program
def dict_of_attributes_is_made_anew_of_itself():
    o: Any = Thing()
    o.a, o.b = 1.0, np.arange(2.0)

    def f(x):
        o.__dict__ = dict(o.__dict__, a=o.a + 2.0)
        return x + o.a + o.b.sum()

    return f, lambda: dict(vars(o)), nothing


@program
def dict_of_attributes_holds_what_was_stored():
    o: Any = Thing()
    o.a = np.zeros(2)
    items = [1.0]

    def f(x):
        o.a = ([1.0], items)
        return x + len(vars(o))

    return f, lambda: (o.a[1] is items, o.a), lambda: items.append(2.0)


@program
def dict_of_attributes_as_text():
    o: Any = Thing()
    o.a, o.z = 1, 2

    def f(x):
        y = x + len(json.dumps(vars(o)))
        o.a += 100
        o.q = [1]
        return y + len(json.dumps(vars(o)))

    return f, lambda: dict(vars(o)), nothing


@program
def arrays_that_are_not_traced_are_changed():
    s = np.arange(3.0).astype(">f8")
    b = np.array([1, None], object)

    def f(x):
        s[0] += 2
        b[0] += 1
        return x + s[0] + b[0] + len(str(x.shape[0]))

    return f, lambda: (list(b), s), nothing


@program
def array_of_objects_as_a_cache():
    b = np.array([1, None], object)

    def f(x):
        b[1] = np.ones(2)
        return x + b[1].sum() + len(str(x.shape[0]))

    return f, lambda: list(b), nothing


@program
def cached_function_binds_a_variable():
    t: Any = None

    @functools.cache
    def build(j):
        nonlocal t
        t = [1.0]
        return j

    def f(x):
        build(1)
        t.append(2.0)
        return x + len(t) + len(str(x.shape[0]))

    return f, lambda: t, nothing


@program
def cached_function_gives_what_it_binds():
    u: Any = [1.0]

    @functools.cache
    def build(j):
        nonlocal u
        u = [1.0, 2.0]
        return u

    def f(x):
        k = build(1)
        u.append(2.0)
        k.append(1.0)
        return x + len(k) + len(u)

    return f, lambda: u, nothing


@program
def cached_function_binds_an_object_and_an_attribute():
    u: Any = None
    o: Any = Thing()
    o.items = [1.0]

    @functools.cache
    def build(j):
        nonlocal u
        u = Thing()
        u.k = 1.0
        o.items = [3.0]
        return j

    def f(x):
        n = len(o.items)
        build(1)
        u.z = np.ones(1)
        o.items.append(2.0)
        return x + u.z + u.k + len(o.items) + n

    return f, lambda: (vars(u), o.items), nothing


# -- attributes that are items -----------------------------------------------------------------------------------------
class ByMethodsOfDict(dict[str, Any]):
    __getattr__ = dict.__getitem__
    __setattr__: Any = dict.__setitem__


class ByMethods(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)

    def __delattr__(self, name: str) -> None:
        del self[name]


class ByItsDict(dict[str, Any]):
    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


class Both(dict[str, Any]):
    def __init__(self, **items: Any) -> None:
        for name, item in items.items():
            setattr(self, name, item)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setitem__(name, value)


def attributes_as_items(kind: Any) -> Program:
    def build():
        c = kind(k=2.0)

        def f(x):
            c.k += 1
            c.last = c.k * 2
            y = x * c.k
            c["z"] = c.last + c["k"]
            return y + c["z"]

        return f, lambda: (dict(c), dict(vars(c))), lambda: c.update(k=1.0)

    return build


@program
def property_of_a_container():
    class Rates(dict[str, Any]):
        @property
        def rate(self) -> Any:
            return self["rate"]

        @rate.setter
        def rate(self, value: Any) -> None:
            self["rate"] = value

    class Stack(list[Any]):
        @property
        def top(self) -> Any:
            return self[-1]

        @top.setter
        def top(self, value: Any) -> None:
            self[-1] = value

    rates, stack = Rates(rate=1.0), Stack([1.0])

    def f(x):
        rates.rate *= 2
        stack.top = stack.top + 1
        stack.top += 1
        return x * rates.rate + stack.top

    return f, lambda: (rates, stack), nothing


@program
def attributes_of_members_of_enumerations():
    class Level(Enum):
        LOW = 1

    level: Any = Level.LOW
    level.hits = 0

    def f(x):
        level.hits += 1
        return (x + (7 if x.shape[0] > 3 else 8)) * level.hits

    return f, lambda: level.hits, nothing


for one in (ByMethodsOfDict, ByMethods, ByItsDict, Both):
    PROGRAMS[f"attributes as items, {one.__name__}"] = attributes_as_items(one)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:.*(was compiled .* times anew|is not followed):UserWarning")
def test_what_is_left_is_what_python_leaves(name: str):
    (plain, expected, change), (traced, left, change_too) = PROGRAMS[name](), PROGRAMS[name]()
    compiled = tj.jit(traced)
    for n in (3, 3, 5, 9, 9, 2, 3, 3):
        np.testing.assert_allclose(compiled(np.ones(n)), plain(np.ones(n)))
        np.testing.assert_equal(left(), expected())
        change()
        change_too()
        np.testing.assert_equal(left(), expected())


@pytest.mark.parametrize(
    "made", [lambda x: iter([x]), lambda x: {"a": x}.values(), lambda x: slice(x[0], 3), lambda x: Pair(x, 1)]
)
def test_what_would_hold_a_traced_array_is_refused(made: Callable[[Any], Any]):
    o: Any = Thing()

    def f(x):
        o.t = made(x)
        return x

    with pytest.raises(UnsupportedError, match="stored outside of the traced function, in the attribute 't'"):
        tj.jit(f)(np.ones(3))
    assert not vars(o)


@pytest.mark.parametrize("caught", ["except:", "except BaseException:"])
def test_a_function_that_catches_everything_is_run_once(caught: str):
    source = f"""
    def program():
        o = types.SimpleNamespace(k=0, sizes=[])
        def f(x, n):
            o.k += 1
            try:
                q = np.zeros(n)
            {caught}
                q, o.k = 0, o.k + 100
            try:
                o.sizes.append(f"{{x.shape[0]}}")
            {caught}
                o.k += 1000
            try:
                return x + o.k
            finally:
                o.k += 0.5
        return f, o
    """
    scope: Any = {"np": np, "types": types}
    exec(textwrap.dedent(source), scope)
    (plain, expected), (traced, left) = scope["program"](), scope["program"]()
    compiled = tj.jit(traced)
    for size, n in ((3, 1), (3, 1), (4, 2), (5, 2), (3, 1)):
        np.testing.assert_array_equal(compiled(np.zeros(size), n), plain(np.zeros(size), n))
        assert vars(left) == vars(expected)


# -- transformations ---------------------------------------------------------------------------------------------------
LINEAR: dict[str, Callable[[], tuple[Callable[..., Any], Callable[[], Any]]]] = {}


def linear(function: Any) -> Any:
    LINEAR[function.__name__] = function
    return function


@linear
def list_under_a_variable_and_an_attribute():
    o: Any = Thing()
    items = o.items = [1.0]

    def f(x):
        items.append(3.0)
        return (x * len(o.items) * (2.0 if o.items is items else 1.0)).sum()

    return f, lambda: (o.items, o.items is items)


@linear
def cache_of_a_class():
    class Basis:
        cache: dict[int, Any] = {}  # noqa: RUF012

        def __call__(self, n):
            if n not in self.cache:
                self.cache[n] = np.arange(n) * 1.0
            return self.cache[n]

    basis = Basis()
    return (lambda x: (x * basis(3)).sum()), lambda: Basis.cache


@linear
def cache_in_an_attribute_of_a_function():
    def basis(n):
        if not hasattr(basis, "cache"):
            basis.cache = {}
        if n not in basis.cache:
            basis.cache[n] = np.arange(n) * 1.0
        return basis.cache[n]

    return (lambda x: (x * basis(3)).sum()), lambda: dict(vars(basis))


@linear
def arrays_of_classes():
    class Data:
        w = None

    def f(x):
        if Data.w is None:
            Data.w = np.arange(3.0)
        return (x * Data.w).sum()

    return f, lambda: Data.w


@linear
def cache_of_a_function():
    cache: dict[int, Any] = {}

    def basis(n):
        if n not in cache:
            cache[n] = np.arange(n) * 1.0
        return cache[n]

    return (lambda x: (x * basis(3)).sum()), lambda: cache


@linear
def attributes_of_all_kinds():
    s: Any = Slots()
    s.a = None
    o: Any = Thing()
    o.history, o.pair = [], None

    def f(x):
        if s.a is None:
            s.a = np.arange(3.0)
        o.history.append(np.ones(3))
        if o.pair is None:
            o.pair = Pair(np.ones(3) * 2, 1)
        return (x * s.a * o.history[-1] * o.pair.a).sum()

    return f, lambda: (s.a, o.history, o.pair)


@linear
def views_in_a_cache():
    cache: dict[str, Any] = {}

    def f(x):
        if not cache:
            cache["all"] = np.arange(4.0)
            cache["some"] = cache["all"][1:]
        return (x * cache["some"]).sum()

    return f, lambda: (cache, np.shares_memory(cache["all"], cache["some"]))


TRANSFORMED: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "grad": tj.grad,
    "jit(grad)": lambda f: tj.jit(tj.grad(f)),
    "grad(jit)": lambda f: tj.grad(tj.jit(f)),
    "jvp": lambda f: lambda x: tj.jvp(f, (x,), (x,))[1],
    "vmap": tj.vmap,
    "jit(vmap)": lambda f: tj.jit(tj.vmap(f)),
    "vmap(grad)": lambda f: tj.vmap(tj.grad(f)),
    "jit(vmap(grad))": lambda f: tj.jit(tj.vmap(tj.grad(f))),
    "hessian": tj.hessian,
    "jit(hessian)": lambda f: tj.jit(tj.hessian(f)),
}


@pytest.mark.parametrize("transformed", TRANSFORMED)
def test_an_exception_leaves_what_was_done_before_it(transformed: str):
    def program():
        class Shared:
            w = np.zeros(2)

        o: Any = Thing()
        o.w, o.n, o.items, o.kind = np.ones(2), 0, [], Shared

        def f(x):
            Shared.w = np.ones(2)
            o.w = o.w + 1
            o.n += 1
            o.items.append(np.zeros(1))
            if o.n > 0:
                raise KeyError(1)
            return x.sum()

        return f, o

    (plain, expected), (traced, left) = program(), program()
    compiled = TRANSFORMED[transformed](traced)
    for _ in range(2):
        with pytest.raises(KeyError):
            plain(np.ones(3))
        with pytest.raises(KeyError):
            compiled(np.ones((2, 3)) if "vmap" in transformed else np.ones(3))
        np.testing.assert_equal(left.kind.w, expected.kind.w)
        np.testing.assert_equal(vars(left) | {"kind": 0}, vars(expected) | {"kind": 0})


@pytest.mark.parametrize("transformed", TRANSFORMED)
@pytest.mark.parametrize("name", LINEAR)
def test_what_depends_on_no_argument_is_left_by_transformations(name: str, transformed: str):
    (plain, expected), (traced, left) = LINEAR[name](), LINEAR[name]()
    compiled = TRANSFORMED[transformed](traced)
    x = np.array([1.0, 2.0, 3.0])
    for _ in range(3):
        value = plain(x)
        found = compiled(np.stack([x, 2 * x]))[0] if "vmap" in transformed else compiled(x)
        if "hessian" in transformed:
            assert not found.any()
        else:
            np.testing.assert_allclose((found * x).sum() if "grad" in transformed else found, value)
        np.testing.assert_equal(left(), expected())
