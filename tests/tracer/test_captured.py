"""What a compiled function depends on outside of itself: arrays are read at each call,
rebound names are followed or traced anew."""

import functools
import gc
import linecache
import random
import threading
import types
import weakref
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.calls.watch import make_watch, words_hold
from tracejit.support.errors import UnsupportedError
from tracejit.tracer.captured import Dependencies, Read, Reads
from tracejit.tracer.contents import contents
from tracejit.tracer.places import (
    MISSING,
    AttributePlace,
    CellPlace,
    ClassPlace,
    ContentsPlace,
    ItemPlace,
    NamePlace,
    SlotPlace,
)

X = np.arange(3.0)


def module(text: str, **names: Any) -> Any:
    """A module of the user with these names and this code."""
    made = types.ModuleType("module_of_the_test")
    made.__dict__.update(names, np=np, tj=tj)
    exec(text, made.__dict__)
    return made


def call(function: Any, m: Any, *args: Any) -> None:
    """A compiled call gives what the original gives."""
    np.testing.assert_allclose(function(*args), function.__wrapped__(*args), err_msg=function.explain())


TEXT = """
@tj.jit
def f(x):
    return x * (W + 1) + K
"""


# -- global names ------------------------------------------------------------------------------------------------------
def test_elements_of_a_global_array_are_read_at_each_call():
    m = module(TEXT, W=np.ones(3), K=1.0)
    call(m.f, m, X)
    m.W[:] = 5
    call(m.f, m, X)
    assert m.f.compilations == 1


def test_another_array_of_the_same_kind_takes_the_place_without_compiling():
    m = module(TEXT, W=np.ones(3), K=1.0)
    for n in range(20):
        m.W = np.full(3, float(n))
        call(m.f, m, X)
        call(m.f, m, X)
    assert m.f.compilations == 1


@pytest.mark.parametrize(
    "other",
    [
        np.ones(1),
        np.ones(3, np.float32),
        np.ones((2, 3)),
        np.ones(6)[::2],
        np.float64(3.0),
        2,
        np.arange(3),
        np.ones(3)[None],
    ],
    ids=["shape", "dtype", "rank", "layout", "scalar", "number", "integers", "axis"],
)
def test_something_else_under_the_name_is_traced_anew(other: Any):
    m = module(TEXT, W=np.ones(3), K=1.0)
    call(m.f, m, X)
    m.W = other
    call(m.f, m, X)
    call(m.f, m, X)
    assert m.f.compilations == 2


def test_numbers_are_constants_until_they_change():
    m = module(TEXT, W=np.ones(3), K=1.0)
    call(m.f, m, X)
    m.K = float("1.0")  # an equal number is the same number
    call(m.f, m, X)
    assert m.f.compilations == 1
    m.K = 2.0
    call(m.f, m, X)
    m.K = -0.0
    call(m.f, m, X)
    m.K = 0.0
    assert m.f(np.full(3, -0.0)).tolist() == m.f.__wrapped__(np.full(3, -0.0)).tolist()
    m.K = True
    call(m.f, m, X)
    assert m.f.compilations == 5


def test_a_name_that_changes_all_the_time_is_warned_about():
    m = module(TEXT, W=np.ones(3), K=0.0)
    m.f(X)

    def change_often() -> None:
        for n in range(1, 12):
            m.K = float(n)
            m.f(X)

    with pytest.warns(
        UserWarning, match=r"f was compiled 8 times anew .*the global 'K' has changed.*as an argument"
    ) as caught:
        change_often()
    assert len(caught) == 1


def test_functions_and_modules_that_are_rebound_are_traced_anew():
    m = module("import math\ndef g(x): return x + 1\n@tj.jit\ndef f(x): return g(x) * math.pi")
    call(m.f, m, X)
    m.g = lambda x: x - 1
    call(m.f, m, X)
    m.math = types.SimpleNamespace(pi=3.0)
    call(m.f, m, X)
    m.math.pi = 4.0
    call(m.f, m, X)
    assert m.f.compilations == 4


def test_names_used_by_called_functions_count():
    m = module("def g(x): return x * W\ndef h(x): return g(x) + K\n@tj.jit\ndef f(x): return h(x)", W=np.ones(3), K=1.0)
    call(m.f, m, X)
    m.W = np.full(3, 2.0)
    call(m.f, m, X)
    assert m.f.compilations == 1
    m.K = 3.0
    call(m.f, m, X)
    assert m.f.compilations == 2


def test_a_deleted_name_is_an_error_of_python():
    m = module(TEXT, W=np.ones(3), K=1.0)
    call(m.f, m, X)
    del m.K
    with pytest.raises(NameError, match="'K'"):
        m.f(X)
    m.K = 1.0
    call(m.f, m, X)


def test_a_module_that_grows_does_not_compile_again_and_stays_fast():
    m = module(TEXT, W=np.ones(3), K=1.0)
    call(m.f, m, X)
    for n in range(500):
        setattr(m, f"name{n}", n)
        if n % 50 == 0:
            call(m.f, m, X)
    for n in range(0, 500, 2):
        delattr(m, f"name{n}")
    call(m.f, m, X)
    assert m.f.compilations == 1
    m.W = np.zeros(3)
    call(m.f, m, X)


def test_names_changed_at_module_level_between_calls_cost_nothing(monkeypatch: pytest.MonkeyPatch):
    from tracejit.api import jit as jit_module

    m = module(TEXT, W=np.ones(3), K=1.0)
    m.y = None
    m.f(X)
    m.f(X)
    misses = []
    monkeypatch.setattr(jit_module, "signature_of", lambda *a, **k: misses.append(a))
    for n in range(50):
        m.y = n
        m.f(X)
    if m.f._dispatcher.native:
        assert not misses


def test_two_names_of_one_array_are_told_apart():
    shared = np.ones(3)
    m = module("@tj.jit\ndef f(x): return x * A + B", A=shared, B=shared)
    call(m.f, m, X)
    m.A = np.full(3, 2.0)
    call(m.f, m, X)
    m.B = np.full(3, 4.0)
    call(m.f, m, X)
    m.A = m.B
    call(m.f, m, X)


def test_arrays_that_are_views_of_each_other_are_read_live():
    base = np.ones(6)
    m = module("@tj.jit\ndef f(x): return x * A + B", A=base[:3], B=base[::2])
    call(m.f, m, X)
    base[:] = np.arange(6)
    call(m.f, m, X)
    assert m.f.compilations == 1


def test_an_array_of_rank_0_is_read_live():
    m = module("@tj.jit\ndef f(x): return x * S", S=np.array(2.0))
    call(m.f, m, X)
    m.S[...] = 3.0
    call(m.f, m, X)
    assert m.f.compilations == 1


IN_BLOCKS = {
    "branch": "if x.sum() > 2: return x + S\n    return x",
    "chosen": "return x + S if x.sum() > 2 else x",
    "while": "k = 0.0\n    while k < x.sum(): k = k + S\n    return k",
    "loop": "t = 0.0\n    for v in x:\n        if v > 0: t = t + S\n    return t",
    "cond": "return tj.lax.cond(x.sum() > 2, lambda: x * S, lambda: x)",
    "fori": "return tj.lax.fori_loop(0, 3, lambda i, y: y + S.sum(), x)",
    "both": "y = x * S\n    if x.sum() > 2: y = y + S\n    return y",
    "view": "if x.sum() > 2: return x + O.w\n    return x",
    "attribute": "if x.sum() > 2: return np.where(x > O.s, x, O.s)\n    return x",
    "mapped": "return tj.vmap(lambda v: v + S if v > 0 else v)(x)",
    "derivative": "return tj.grad(lambda x: (x * x * S).sum() if x.sum() > 2 else x.sum())(x)",
}


@pytest.mark.parametrize("body", IN_BLOCKS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_an_array_of_rank_0_is_read_live_in_blocks(body: str, backend: str):
    whole = np.full(4, 1.5)
    held = types.SimpleNamespace(s=np.array(1.5), w=whole[1:2].reshape(()))
    plain = IN_BLOCKS[body].startswith("return tj")
    text = f"def f(x):\n    {IN_BLOCKS[body]}\ng = tj.jit(f, backend={backend!r})\n"
    m = module("", S=np.array(1.5), O=held)
    name = f"<in blocks {body} {backend}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    exec(compile(text, name, "exec"), m.__dict__)
    for value in (1.5, 10.0, 2.0, 2.0):
        for changed in (m.S, held.s, whole):
            changed[...] = value
        x = np.arange(3.0)
        got, want = m.g(x), tj.jit(m.f)(x) if plain else m.f(x)
        np.testing.assert_allclose(got, want)
        if plain:
            expected = {"cond": x * value, "fori": x + 3 * value, "mapped": np.where(x > 0, x + value, x)}
            np.testing.assert_allclose(got, expected.get(body, 2 * x * value))
    assert m.g.compilations == 1


def test_an_array_whose_shape_or_memory_is_changed_in_place_is_noticed():
    m = module("@tj.jit\ndef f(x): return x + W.sum(axis=0)", W=np.ones((2, 3)))
    call(m.f, m, X)
    m.W.resize((4, 3), refcheck=False)
    m.W[:] = 1
    call(m.f, m, X)
    call(m.f, m, X)
    assert m.f.compilations == 2


def test_a_global_array_that_the_function_changes_is_refused():
    m = module("@tj.jit\ndef f(x):\n    W[0] = x[0]\n    return W.sum()", W=np.ones(3))
    with pytest.raises(
        UnsupportedError, match="from outside of the traced function is changed in place; pass it as an argument"
    ):
        m.f(X)
    assert m.W.tolist() == [1, 1, 1]


def test_a_returned_global_array_is_a_copy():
    m = module("@tj.jit\ndef f(x): return W, W.T", W=np.ones(3))
    first, second = m.f(X)
    first[0] = second[1] = 7
    assert m.W.tolist() == [1, 1, 1]


def test_elements_that_decide_are_part_of_the_program():
    m = module(
        "@tj.jit\ndef f(x):\n    out = np.zeros(3)\n    for i in INDEX:\n        out[i] = x[i] * 2\n"
        "    return out + (1 if INDEX[0] == 2 else 0)",
        INDEX=np.array([2, 0]),
    )
    call(m.f, m, X)
    assert m.f.compilations == 1
    m.INDEX[:] = [1, 1]
    call(m.f, m, X)
    assert m.f.compilations == 2
    call(m.f, m, X)
    assert m.f.compilations == 2


# -- closures ----------------------------------------------------------------------------------------------------------
def test_variables_of_enclosing_functions_are_followed():
    w, k = np.ones(3), 2.0

    @tj.jit
    def f(x):
        return x * w + k

    np.testing.assert_array_equal(f(X), X + 2)
    w[:] = 2
    np.testing.assert_array_equal(f(X), 2 * X + 2)
    w = np.full(3, 3.0)
    np.testing.assert_array_equal(f(X), 3 * X + 2)
    assert f.compilations == 1
    k = 5.0
    np.testing.assert_array_equal(f(X), 3 * X + 5)
    w = 1
    np.testing.assert_array_equal(f(X), X + 5)
    assert f.compilations == 3


def test_functions_in_closures_bring_their_own_variables():
    w = np.ones(3)

    def scale(x):
        return x * w

    def twice(function):
        return lambda x: function(function(x))

    f = tj.jit(twice(scale))
    np.testing.assert_array_equal(f(X), X)
    w = np.full(3, 2.0)
    np.testing.assert_array_equal(f(X), 4 * X)
    assert f.compilations == 1


def test_an_array_captured_inside_a_loop_body_is_read_live():
    w = np.ones(3)

    def step(i, c):
        return c + w

    f = tj.jit(lambda x: tj.lax.fori_loop(0, 3, step, x) + w)
    np.testing.assert_array_equal(f(X), X + 4)
    w[:] = 2
    np.testing.assert_array_equal(f(X), X + 8)
    w = np.zeros(3)
    np.testing.assert_array_equal(f(X), X)
    assert f.compilations == 1


def test_default_arguments_are_read_live():
    default = np.ones(3)

    @tj.jit
    def f(x, w=default):
        return x + w * 2

    np.testing.assert_array_equal(f(X), X + 2)
    default[:] = 2
    np.testing.assert_array_equal(f(X), X + 4)


# -- attributes and containers
# -----------------------------------------------------------------------------------------------------------
class Layer:
    def __init__(self, w: Any, k: float) -> None:
        self.w, self.k = w, k

    def __call__(self, x):
        return x * (self.w + 1) * self.k

    @tj.jit
    def compiled(self, x):
        return self(x)


def test_attributes_of_objects_are_followed():
    layer = Layer(np.ones(3), 1.0)
    f = tj.jit(lambda x: layer(x))
    for compilations, change in (
        (1, lambda: None),
        (1, lambda: layer.w.fill(3)),
        (1, lambda: setattr(layer, "w", np.full(3, 4.0))),
        (2, lambda: setattr(layer, "k", 2.0)),
        (3, lambda: setattr(layer, "w", 5)),
    ):
        change()
        np.testing.assert_array_equal(f(X), layer(X))
        np.testing.assert_array_equal(f(X), layer(X))
        assert f.compilations == compilations


def test_an_object_whose_dict_is_replaced_is_followed():
    class Error_(Exception):  # whose instances keep their dict at an offset
        pass

    for owner in (Layer(np.ones(3), 1.0), Error_()):
        owner.k = 1.0

        def run(x, owner=owner):
            return x * owner.k

        f = tj.jit(run)
        np.testing.assert_array_equal(f(X), X)
        owner.__dict__ = dict(owner.__dict__)
        np.testing.assert_array_equal(f(X), X)
        owner.k = 2.0
        np.testing.assert_array_equal(f(X), 2 * X)
        owner.__dict__ = {"k": 3.0}
        gc.collect()
        np.testing.assert_array_equal(f(X), 3 * X)


def test_attributes_of_the_object_of_a_compiled_method_are_followed():
    layer, other = Layer(np.ones(3), 1.0), Layer(np.zeros(3), 3.0)
    bound = tj.jit(layer.__call__)
    for one in (layer, other):
        np.testing.assert_array_equal(one.compiled(X), one(X))
    layer.k, layer.w = 4.0, np.full(3, 2.0)
    np.testing.assert_array_equal(layer.compiled(X), layer(X))
    np.testing.assert_array_equal(other.compiled(X), other(X))
    np.testing.assert_array_equal(bound(X), layer(X))
    layer.k = 5.0
    np.testing.assert_array_equal(bound(X), layer(X))


class Slotted:
    __slots__ = ("k", "w")

    def __init__(self, w: Any, k: float = 1.0) -> None:
        self.w, self.k = w, k

    def __call__(self, x):
        out = np.zeros(3)
        out += x * self.w * self.k * 2
        return out


def test_attributes_in_slots_are_followed():
    q = Slotted(np.ones(3))
    f = tj.jit(q)
    np.testing.assert_array_equal(f(X), q(X))
    q.w.fill(4)
    np.testing.assert_array_equal(f(X), q(X))
    q.w = np.full(3, 5.0)
    np.testing.assert_array_equal(f(X), q(X))
    assert f.compilations == 1
    q.k = 2.0
    np.testing.assert_array_equal(f(X), q(X))
    assert f.compilations == 2
    del q.k
    with pytest.raises(AttributeError, match="k"):
        f(X)


class Shared:
    k = 2.0
    w = np.ones(3)

    def run(self, x):
        return x * self.k + self.w * 2


class Derived(Shared):
    def __init__(self) -> None:
        self.own = 1


def test_attributes_of_classes_are_followed_where_objects_have_them(monkeypatch: pytest.MonkeyPatch):
    for factor, kind in enumerate((Shared, Derived), 2):
        thing = kind()
        f = tj.jit(thing.run)
        np.testing.assert_array_equal(f(X), thing.run(X))
        for name, value in (("k", 3.0 * factor), ("w", np.full(3, 4.0)), ("w", np.full(3, 5.0))):
            monkeypatch.setattr(Shared, name, value)
            np.testing.assert_array_equal(f(X), thing.run(X))
            np.testing.assert_array_equal(f(X), thing.run(X))
        thing.k = 9.0
        np.testing.assert_array_equal(f(X), thing.run(X))
        np.testing.assert_array_equal(f(X), thing.run(X))
        assert f.compilations == 3


@pytest.mark.parametrize("how", ["method", "partial", "default", "tuple"])
def test_objects_that_functions_hold_are_followed(how: str):
    layer = Layer(np.ones(3), 1.0)
    method, bound, pair = layer.__call__, functools.partial(lambda held, x: held(x), layer), (layer, 1)

    def default(x, held=layer):
        return held(x)

    functions = {
        "method": lambda x: method(x),
        "partial": lambda x: bound(x),
        "default": default,
        "tuple": lambda x: pair[0](x),
    }
    f = tj.jit(functions[how])
    for change in (
        lambda: None,
        lambda: setattr(layer, "k", 3.0),
        lambda: setattr(layer, "w", np.full(3, 4.0)),
        lambda: layer.w.fill(2),
    ):
        change()
        np.testing.assert_array_equal(f(X), layer(X))
        np.testing.assert_array_equal(f(X), layer(X))
    assert f.compilations == 2


def test_objects_within_objects_are_followed():
    class Net:
        def __init__(self) -> None:
            self.layers = [Layer(np.ones(3), 1.0), Layer(np.ones(3), 2.0)]

        def run(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    net = Net()
    f = tj.jit(net.run)
    np.testing.assert_array_equal(f(X), net.run(X))
    net.layers[1].k = 7.0
    np.testing.assert_array_equal(f(X), net.run(X))
    net.layers[0].w = np.full(3, 9.0)
    np.testing.assert_array_equal(f(X), net.run(X))
    net.layers.append(Layer(np.ones(3), 3.0))
    np.testing.assert_array_equal(f(X), net.run(X))
    net.layers[0] = net.layers[1]
    np.testing.assert_array_equal(f(X), net.run(X))


def test_dicts_and_lists_of_arrays_are_followed():
    params: dict[str, Any] = {"w": np.ones(3), "b": [1.0, np.zeros(3)], 3: (np.ones(3),)}

    def f(x):
        return x * (params["w"] * 2) + params["b"][1] * params["b"][0] + params[3][0] * 2

    compiled = tj.jit(f)
    changes = [
        lambda: None,
        lambda: params["w"].fill(4),
        lambda: params["b"][1].fill(4),
        lambda: params[3][0].fill(4),
        lambda: params.update(w=np.full(3, 2.0)),
        lambda: params["b"].__setitem__(1, np.full(3, 2.0)),
        lambda: params["b"].__setitem__(0, 3.0),
        lambda: params.__setitem__(3, (np.full(3, 7.0),)),
        lambda: params.update(b=[2.0, np.ones(3)]),
    ]
    for change in changes:
        change()
        np.testing.assert_allclose(compiled(X), f(X))
        np.testing.assert_allclose(compiled(X), f(X))
    assert compiled.compilations == 4  # at first; then a number, a tuple, and a list were replaced


# -- other ways to call
# ------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_every_backend_follows_names(backend: str):
    w = np.ones(3)
    f = tj.jit(backend=backend)(lambda x: x + w * 2)
    np.testing.assert_array_equal(np.asarray(f(X)), X + 2)
    w = np.full(3, 2.0)
    np.testing.assert_array_equal(np.asarray(f(X)), X + 4)
    w = 5.0
    np.testing.assert_array_equal(np.asarray(f(X)), X + 10)


def test_functions_that_change_arguments_follow_names():
    w = np.ones(3)

    @tj.jit
    def f(x):
        x += w

    x = X.copy()
    f(x)
    w = np.full(3, 2.0)
    f(x)
    np.testing.assert_array_equal(x, X + 3)


def test_symbolic_extents_follow_names():
    k = 1.0
    f = tj.jit(lambda x: x * k)
    for n in (3, 4, 5):
        np.testing.assert_array_equal(f(np.ones(n)), np.ones(n))
    k = 2.0
    for n in (3, 4, 5, 6):
        np.testing.assert_array_equal(f(np.ones(n)), 2 * np.ones(n))


def test_without_redirection_arrays_are_read_live_where_they_meet_traced_ones():
    w = np.ones(3)
    f = tj.jit(redirect=False)(lambda x: x + w)
    np.testing.assert_array_equal(f(X), X + 1)
    w[:] = 2
    np.testing.assert_array_equal(f(X), X + 2)


def test_arrays_are_freed_when_others_took_their_place():
    class Tracked(np.ndarray):
        pass

    m = module(TEXT, W=np.ones(3), K=1.0)
    m.f(X)
    gone = []
    for n in range(5):
        array = np.full(3, float(n))
        gone.append(weakref.ref(array))
        m.W = array
        m.f(X)
        m.f(X)
        del array
    m.W = np.zeros(3)
    m.f(X)
    gc.collect()
    assert sum(r() is not None for r in gone) == 0


def test_arrays_replaced_by_another_thread_stay_until_the_call_is_over():
    m = module("@tj.jit\ndef f(x): return x + W", W=np.zeros(200_000))
    x = np.zeros(200_000)
    m.f(x)
    stop = threading.Event()

    def replace() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            m.W = np.full(200_000, float(n))

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(150):
            out = m.f(x)
            assert (out == out[0]).all()
            assert out[0] == int(out[0])
    finally:
        stop.set()
        thread.join()
    assert m.f.compilations == 1


# -- dependencies and the words that show them
# -------------------------------------------------------------------------------------------
def places() -> list[Any]:
    """(place, how it is set) of every kind."""
    space: dict[str, Any] = {"other": 0, "name": 1}
    mixed: dict[Any, Any] = {1: 0, "key": 1, (2, 3): 4}
    holder = types.SimpleNamespace(name=1)
    layer = Layer(1, 2.0)
    slotted = Slotted(1)
    cell = types.CellType(1)

    class Kind:
        name = 1

    class Below(Kind):
        pass

    def function(x: Any = 1) -> Any:
        return x

    def set_cell(v: Any) -> None:
        cell.cell_contents = v

    return [
        (NamePlace(space, "name"), lambda v: space.__setitem__("name", v)),
        (CellPlace(cell, "name"), set_cell),
        (AttributePlace(holder, "name"), lambda v: setattr(holder, "name", v)),
        (AttributePlace(layer, "w"), lambda v: setattr(layer, "w", v)),
        (SlotPlace(slotted, Slotted.__dict__["w"]), lambda v: setattr(slotted, "w", v)),
        (ItemPlace(mixed, "key"), lambda v: mixed.__setitem__("key", v)),
        (ItemPlace(mixed, (2, 3)), lambda v: mixed.__setitem__((2, 3), v)),
        (ClassPlace(Kind, "name"), lambda v: setattr(Kind, "name", v)),
        (ClassPlace(Below, "name"), lambda v: setattr(Kind, "name", v)),
    ]


@pytest.mark.parametrize("number", range(9))
def test_words_and_python_agree_on_every_kind_of_place(number: int):
    place, put = places()[number]
    one, two = np.ones(3), np.zeros(3)
    put(one)
    assert place.read() is one
    dependencies = Dependencies((Read(place, one),))
    watch, _held = make_watch(dependencies)
    assert watch.holds()
    assert words_hold(watch)
    put(two)
    assert not watch.holds()
    assert not words_hold(watch)
    assert dependencies.renewed() is None
    assert str(place) in dependencies.reason()
    put(one)
    assert watch.holds()
    assert words_hold(watch)
    assert dependencies.reason() == ""


def containers() -> list[Any]:
    """(container, changes of it) of every family."""
    return [
        ([1, 2.0], lambda c: c.append(2), lambda c: c.__setitem__(0, 5), lambda c: c.pop(), lambda c: c.reverse()),
        ([], lambda c: c.append(1)),
        ({1: 2, "a": 3}, lambda c: c.update({2: 3}), lambda c: c.update(a=4), lambda c: c.pop(1),
        lambda c: c.update({1: c.pop(1)})),
        ({"a": 3, "b": 4}, lambda c: c.update(a=7), lambda c: c.update(c=1), lambda c: c.update(a=c.pop("a"))),
        (OrderedDict(a=1, b=2), lambda c: c.move_to_end("a"), lambda c: c.update(b=5), lambda c: c.pop("a")),
        (defaultdict(int, a=1), lambda c: c["b"], lambda c: c.update(a=2),
        lambda c: setattr(c, "default_factory", float)),
        (Counter("aab"), lambda c: c.update("a"), lambda c: c.update("c")),
        (deque([1, 2, 3], 4), lambda c: c.append(4), lambda c: c.rotate(), lambda c: c.__setitem__(1, 9),
        lambda c: c.popleft()), ({1, "a", 3.5}, lambda c: c.add(2), lambda c: c.discard(1), lambda c: (c.discard("a"),
        c.add("b"))),
        (set(range(300)), lambda c: c.add(1000), lambda c: (c.discard(7), c.add(1007))),
        (set(), lambda c: c.add(1)),
        (bytearray(b"abc"), lambda c: c.append(1), lambda c: c.__setitem__(0, 2)),
        (array("d", [1, 2]), lambda c: c.append(1.0), lambda c: c.__setitem__(0, 5.0)),
        (type("Own", (list,), {})([1, 2]), lambda c: c.append(2), lambda c: c.__setitem__(1, 3)),
        (type("Own", (dict,), {})(a=1), lambda c: c.update(b=2), lambda c: c.update(a=3)),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(containers())))
def test_every_change_of_a_container_is_seen(number: int):
    for change in range(len(containers()[number]) - 1):
        container, *changes = containers()[number]
        place = ContentsPlace(container)
        watch, _held = make_watch(Dependencies((Read(place, place.read()),)))
        assert watch.holds()
        assert words_hold(watch)
        assert watch.address
        changes[change](container)
        assert not words_hold(watch)
        assert not watch.holds()


@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda x: defaultdict(int, x), list, set, deque])
def test_random_changes_of_containers_are_seen(kind: Any):
    draw = random.Random(str(kind))
    container = kind({n: n for n in range(20)})
    for _ in range(300):
        place = ContentsPlace(container)
        watch, _held = make_watch(Dependencies((Read(place, place.read()),)))
        assert watch.address
        before = contents(container)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(25)
            if isinstance(container, dict):
                container.pop(at, None) if draw.random() < 0.4 else container.__setitem__(at, draw.randrange(2))
            elif isinstance(container, set):
                container.discard(at) if draw.random() < 0.5 else container.add(at)
            elif draw.random() < 0.5 and len(container) > 2:
                container.pop()
            else:
                container.append(draw.randrange(2)) if draw.random() < 0.5 else container.__setitem__(
                    0, draw.randrange(2)
                )
        after = contents(container)
        same = len(after) == len(before) and all(a is b for a, b in zip(after, before, strict=True))
        assert watch.holds() == same
        assert same or not words_hold(watch)


def test_what_is_not_there_is_watched():
    layer, other = Layer(1, 2.0), Layer(1, 2.0)
    space: dict[str, Any] = {"a": 1}

    class Base:
        pass

    class Below(Base):
        pass

    thing = Below()
    for place, put in (
        (AttributePlace(layer, "new"), lambda: setattr(layer, "new", 1)),
        (AttributePlace(other, "new"), lambda: setattr(other, "new", 1)),  # whose keys have the name by now
        (NamePlace(space, "new"), lambda: space.__setitem__("new", 1)),
        (ItemPlace({1: 2}, 7), None),
        (ClassPlace(Below, "new"), lambda: setattr(Base, "new", 1)),
        (ClassPlace(Below, "new2"), lambda: setattr(Below, "new2", 1)),
        (AttributePlace(thing, "x"), lambda: setattr(thing, "x", 1)),
    ):
        watch, _held = make_watch(Dependencies((Read(place, MISSING),)))
        assert words_hold(watch)
        if put is not None:
            put()
            assert not words_hold(watch)
            assert not watch.holds()


def test_words_notice_a_name_that_moves_within_its_dict():
    space = {f"n{i}": object() for i in range(5)}
    value = space["n2"]
    watch, _held = make_watch(Dependencies((Read(NamePlace(space, "n2"), value),)))
    del space["n2"]
    assert not words_hold(watch)
    space["n2"] = value  # now the last entry
    assert watch.holds()
    again, _held2 = make_watch(Dependencies((Read(NamePlace(space, "n2"), value),)))
    assert words_hold(again)


def test_words_notice_a_cleared_dict_and_read_no_freed_memory():
    space = {f"n{i}": object() for i in range(50)}
    watch, _held = make_watch(Dependencies((Read(NamePlace(space, "n7"), space["n7"]),)))
    space.clear()
    gc.collect()
    assert not words_hold(watch)
    space.update({f"n{i}": object() for i in range(50)})
    assert not words_hold(watch)


def test_a_value_that_is_no_longer_there_cannot_be_watched():
    place = NamePlace({"a": 1}, "b")
    watch, _held = make_watch(Dependencies((Read(place, 2),)))
    assert watch.address == 0
    assert not words_hold(watch)


def test_the_first_value_read_counts():
    space = {"a": 1, "b": 2}
    reads = Reads()
    reads.note(NamePlace(space, "b"), 2)
    space["b"] = 3
    reads.note(NamePlace(space, "b"), 3)
    dependencies = reads.dependencies(())
    assert [read.value for read in dependencies.reads] == [2]
    assert dependencies.changed()


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (1, 1, True), (1, 1.0, False), (0.0, -0.0, False), (float("nan"), float("nan"), True), ("ab", "-ab"[1:], True),
        (True, 1, False), (None, None, True), ((1,), tuple([1]), False), (np.float32(2), np.float32(2), True),
        (np.float32(2), np.float64(2), False), (1 + 0j, complex(1, -0.0), False), (10**30, int("1" + "0" * 30), True),
    ],
)  # fmt: skip
def test_which_values_are_the_same_to_a_program(one: Any, two: Any, same: bool):
    space = {"a": one}
    dependencies = Dependencies((Read(NamePlace(space, "a"), one),))
    space["a"] = two
    assert (dependencies.renewed() is not None) == same


FUZZED = """
class Config:
    def __init__(self): self.w, self.k, self.items = np.ones(3), 1.0, [np.ones(3), 2.0]
class Slots:
    __slots__ = ("w", "k")
    def __init__(self): self.w, self.k = np.ones(3), 1.0
A, K, config, slots, P, L = np.ones(3), 1.0, Config(), Slots(), {"a": np.ones(3), 1: 2.0}, [np.ones(3), 1.0]
def helper(x): return x * K + A
def make():
    c, d = np.ones(3), 1.0
    def set_c(v):
        nonlocal c
        c = v
    def set_d(v):
        nonlocal d
        d = v
    def f(x):
        y = helper(x) * 2 + config.w * config.k + config.items[0] * config.items[1] + slots.w * slots.k
        return y + P["a"] * P[1] + L[0] * L[1] + c * d + A * 2
    return f, set_c, set_d
"""


@pytest.mark.filterwarnings("ignore:.*times anew")
@pytest.mark.parametrize("seed", range(3))
def test_random_changes_outside_are_seen(seed: int):
    draw = random.Random(seed)
    m = module(FUZZED)
    original, set_c, set_d = m.make()
    compiled = tj.jit(original)

    def array() -> Any:
        return np.full(3, float(draw.randrange(5)))

    def number() -> float:
        return float(draw.randrange(3))

    def forget_a_name() -> None:
        m.__dict__.pop(f"n{draw.randrange(300)}", None)

    changes = [
        lambda: setattr(m, "A", array()),
        lambda: setattr(m, "K", number()),
        lambda: setattr(m.config, "w", array()),
        lambda: setattr(m.config, "k", number()),
        lambda: m.config.items.__setitem__(0, array()),
        lambda: m.config.items.__setitem__(1, number()),
        lambda: setattr(m.slots, "w", array()),
        lambda: setattr(m.slots, "k", number()),
        lambda: m.P.__setitem__("a", array()),
        lambda: m.P.__setitem__(1, number()),
        lambda: m.P.__setitem__(draw.randrange(5, 40), 0),
        lambda: m.L.__setitem__(draw.randrange(1), array()),
        lambda: set_c(array()),
        lambda: set_d(number()),
        lambda: setattr(m, f"n{draw.randrange(300)}", 1),
        forget_a_name,
        lambda: m.A.fill(draw.randrange(5)),
        lambda: m.config.w.fill(draw.randrange(5)),
        lambda: setattr(m.config, f"n{draw.randrange(50)}", 1),
        lambda: setattr(m.config, "__dict__", dict(m.config.__dict__)),
        lambda: setattr(m, "config", m.Config()),
        lambda: setattr(m, "L", [array(), number()]),
        lambda: m.__dict__.__setitem__("A", m.__dict__.pop("A")),
        gc.collect,
    ]
    for step in range(150):
        draw.choice(changes)()
        expected = original(X)
        np.testing.assert_allclose(compiled(X), expected, err_msg=f"at step {step}")
        np.testing.assert_allclose(compiled(X), expected, err_msg=f"at step {step}, the second call")
