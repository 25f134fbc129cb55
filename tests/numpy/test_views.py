"""Views that are no slices: writes go to the array they were taken from where NumPy's do, and only there."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError, WriteError


def written(statement: str) -> Callable[[Any], Any]:
    """A function of x that runs a statement on x and gives x and y."""
    scope: dict[str, Any] = {"np": np}
    exec(compile(f"def f(x):\n    y = x\n    {statement}\n    return x + 0, y + 0", "user_program.py", "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize(
    "statement",
    [
        "y = x.reshape(-1); y[1] = 50", "y = x.T; y[1] = 50", "x.ravel()[3] = 9",
        "y = np.swapaxes(x, 0, 1)[1:]; y += 1", "y = x[1:].T; y[0] = 7", "y = x.T.reshape(-1); y[0] = 7",
        "y = x[:, :2].reshape(-1); y[0] = 7", "y = x[None]; y[0, 1] = 7", "y = np.expand_dims(x, 0); x[0] = 7",
        "y = np.flip(x, 0); y[0] = 7", "y = np.diagonal(x); x[0] = 7", "y = x.flatten(); y[0] = 7", "y = x.T; x[0] = 7",
        "x.T[0, 1] += 5", "y = np.broadcast_to(x[0], (3, 4)); x[0] = 7", "y = x.real; y[0] = 4",
        "np.fill_diagonal(x, 0)", "x.flat[3] = 9", "x.T.flat[1] = 9", "y = np.atleast_3d(x); y[0] = 3",
        "y = np.squeeze(x[:1]); y[0] = 3", "y = np.rot90(x); y[0] = 3", "y = np.moveaxis(x, 0, 1); y[1] *= 2",
        "y = x.reshape(2, 6).reshape(4, 3); y[1] = 1", "y = x[:, ::2].reshape(6); y[0] = 5",
        "y = x[::2].reshape(2, 2, 2); y[0] = 5", "y = x[::-1].reshape(-1); y[0] = 5",
        "y = x[:, 1:2].reshape(3); y[0] = 5", "y = x.reshape(3, 2, 2)[:, 0].T; y[1] = 5",
        "y = x.reshape(3, 4); y[0] = 1", "y = x.T.copy(); y[0] = 1", "y = x.reshape(-1)[2:8].reshape(2, 3); y[1] = 0",
        "y = x.T.T; y[0] = 1", "y = np.ravel(x.T); y[0] = 1", "y = np.flipud(x)[0]; y[:] = 2",
        "y = x.transpose(1, 0)[1]; y -= 1; x[0] = 3", "y = x.reshape(1, 3, 4, 1); y[0, 0] = 1",
        "y = x.swapaxes(0, 1).swapaxes(0, 1).reshape(12); y[5] = 1", "y = np.fliplr(x); x[:, 0] = 9; y[0] = 1",
        "y = x.T; z = y.reshape(2, 2, 3); z[0] = 1", "y = np.broadcast_arrays(x, x[0])[1]; x[0] = 1",
    ],
)  # fmt: skip
def test_writes_reach_what_numpy_shares(statement: str):
    f, x = written(statement), np.arange(12.0).reshape(3, 4)
    mine, theirs = x.copy(), x.copy()
    want = f(theirs)
    for got, w in zip(tj.jit(f)(mine), want, strict=True):
        np.testing.assert_array_equal(got, w)
    np.testing.assert_array_equal(mine, theirs)


STEPS: list[Callable[[Any, Any], Any]] = [
    lambda y, r: y.T,
    lambda y, r: y.reshape(-1),
    lambda y, r: y.ravel(),
    lambda y, r: np.flip(y, int(r.integers(y.ndim))),
    lambda y, r: y[(slice(None),) * int(r.integers(y.ndim)) + (slice(int(r.integers(2)), None),)],
    lambda y, r: y[(slice(None),) * int(r.integers(y.ndim)) + (slice(None, None, 2),)],
    lambda y, r: np.expand_dims(y, int(r.integers(y.ndim + 1))),
    lambda y, r: np.squeeze(y) if y.size > 1 else y,
    lambda y, r: y.reshape((*y.shape[:-1], y.shape[-1] // 2, 2)) if y.shape[-1] % 2 == 0 else y.reshape(y.shape[::-1]),
    lambda y, r: np.swapaxes(y, 0, -1),
    lambda y, r: y.reshape((y.shape[0] * y.shape[1], *y.shape[2:])) if y.ndim > 1 else y,
]


@pytest.mark.parametrize("seed", range(80))
def test_random_chains_of_views(seed: int):
    def f(x: Any) -> Any:
        r = np.random.default_rng(seed)
        y = x
        for k in range(int(r.integers(1, 5))):
            y = STEPS[int(r.integers(len(STEPS)))](y, r)
            if r.random() < 0.4:
                y[(0,) * int(r.integers(1, y.ndim + 1))] = 100.0 + k
        y += 1000
        return y + 0

    shape = (4, 3, 2) if seed % 2 else (4, 6)
    x = np.arange(24.0).reshape(shape)
    mine, theirs = x.copy(), x.copy()
    want = f(theirs)
    got = tj.jit(redirect=False)(f)(mine)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", ["np.diagonal(x)", "np.broadcast_to(x, (2, 3, 3))"])
def test_views_for_reading_refuse_writes(name: str):
    f = eval(compile(f"lambda np, x: {name}.__setitem__(0, 1.0)", "user_program.py", "eval"))
    with pytest.raises(WriteError, match="is a view for reading; copy it first"):
        tj.jit(lambda x: f(np, x))(np.zeros((3, 3)))


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize(
    ("shape", "value"),
    [
        ((3, 3), 5.0), ((5, 3), [1.0, 2.0]), ((7, 2), 4.0), ((2, 5), [1.0, 2, 3, 4]), ((3, 3, 3), 2.0),
    ],
)  # fmt: skip
def test_fill_diagonal(shape: Any, value: Any, wrap: bool):
    want = np.zeros(shape)
    np.fill_diagonal(want, value, wrap)

    def f(x: Any) -> Any:
        np.fill_diagonal(x, value, wrap)
        return x

    np.testing.assert_array_equal(tj.jit(f)(np.zeros(shape)), want)


def test_views_need_no_extents():
    @tj.jit(dynamic_shapes=True)
    def f(x: Any) -> Any:
        y = x.reshape(-1)
        y[0] = 5
        x.T[1] = 3
        z = x[1:].T
        z += 1
        return x + 0

    def plain(x: Any) -> Any:
        x.reshape(-1)[0] = 5
        x.T[1] = 3
        x[1:].T[...] += 1
        return x

    np.testing.assert_array_equal(f(np.zeros((4, 3))), plain(np.zeros((4, 3))))
    assert "n0" in f.explain().splitlines()[0]


RANK_0 = [
    "np.asarray(x[0])", "np.array(x[0])", "np.asarray(n)", "np.array(n, float)", "np.asarray(x.sum(), dtype=float)",
    "np.copy(x[0])", "np.full((), n)", "np.full((), x[0])", "np.full_like(x[0], x[1])", "np.zeros_like(x[0])",
    "np.where(x[0] > 0, x[0], 1)", "np.select([x[0] > 0], [x[0]])", "np.piecewise(x[0], [x[0] > 0], [1])",
    "np.require(x[0])", "x[0, ...]", "x[:1].reshape(())", "x[0]", "x.sum()", "x[0].copy()", "np.asarray(x[0, ...])",
    "x[0, ...].astype(float)", "x[0].astype(float)", "x[0].astype('f4')", "np.zeros(()).astype(float)",
    "np.float64(np.zeros(()))", "np.float32(x[0])", "np.sqrt(np.zeros(()))", "np.positive(x[0])", "x[0, ...].copy()",
    "np.nan_to_num(x[0])", "x @ x", "np.clip(x[0], 0, 1)",
]  # fmt: skip


@pytest.mark.parametrize("form", RANK_0)
def test_in_place_operators_change_arrays_of_rank_0_and_make_new_numbers(form: str):
    scope: dict[str, Any] = {"np": np}
    exec(f"def f(x, n):\n    s = {form}\n    t = s\n    s += 1\n    return t, s, x.copy()", scope)
    expected, found = (function(np.array([1.0, 2.0, 4.0]), 2.0) for function in (scope["f"], tj.jit(scope["f"])))
    for x, y in zip(expected, found, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("form", ["x", "x[::2]", "x.T", "x[0]", "x[1:, ::-1]", "x.astype(int)", "x * 1"])
@pytest.mark.parametrize("copy", [True, False])
def test_nan_to_num_changes_its_argument_where_it_does_not_copy(form: str, copy: bool):
    scope: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    y = np.nan_to_num({form}, copy={copy}, nan=7.0)\n    y += 1\n    return y, x.copy()", scope)
    x = np.array([[1.0, np.nan, 3.0], [np.inf, 5.0, -np.inf]])
    if "int" in form:
        x = np.arange(6.0).reshape(2, 3)
    ours, theirs = x.copy(), x.copy()
    expected, found = scope["f"](theirs), tj.jit(scope["f"])(ours)
    np.testing.assert_array_equal(ours, theirs)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize(
    "statement",
    [
        "x.T[...] = x[::-1]", "y = x.T; y[:] = x[::-1]", "x.swapaxes(0, 1)[...] = x[:, ::-1]",
        "y = x.reshape(3, 1, 3); y[...] = x[::-1, None]",
        "y = x[...]; y[...] = x[::-1]", "np.copyto(x.T[1:, :-1], x[:0:-1, 1:])", "x[::-1].T[...] = x",
        "y = x.T; y += x[::-1]", "x.ravel()[:] = x[::-1, ::-1].ravel()", "x.T[0] = x[2]",
        "y = x.T[::-1]; y[...] = x[:, ::-1]",
    ],
)  # fmt: skip
def test_a_view_is_written_with_another_view_of_its_array(statement: str):
    scope: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    {statement}\n    return x + 0", scope)
    for order in "CF":
        mine, theirs = (np.asarray(np.arange(9.0).reshape(3, 3), order=order) for _ in range(2))
        np.testing.assert_array_equal(tj.jit(scope["f"])(mine), scope["f"](theirs))
        np.testing.assert_array_equal(mine, theirs)


MADE_OF_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "s[None]": lambda s: s[None], "s[...]": lambda s: s[...], "s.reshape(1)": lambda s: s.reshape(1),
    "s.reshape(-1, 1)": lambda s: s.reshape(-1, 1), "s.ravel()": lambda s: s.ravel(),
    "np.reshape": lambda s: np.reshape(s, 1), "np.ravel": np.ravel, "np.expand_dims": lambda s: np.expand_dims(s, 0),
    "np.atleast_1d": np.atleast_1d, "np.atleast_2d": np.atleast_2d, "np.asarray": np.asarray,
    "s.reshape((1, 1))[0]": lambda s: s.reshape((1, 1))[0], "np.broadcast_to": lambda s: np.broadcast_to(s, 2).copy(),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE_OF_NUMBERS)
def test_arrays_made_of_numbers_are_no_views_of_them(name: str):
    make = MADE_OF_NUMBERS[name]

    def of_a_result(x: Any, _: Any) -> Any:
        s = x.max()
        v = make(s)
        v[...] = 9
        v += 1
        return s, v, x

    def of_an_element(x: Any, _: Any) -> Any:
        s = x[1]
        v = make(s)
        np.negative(v, out=v)
        return s, v, x

    def of_an_argument(_: Any, s: Any) -> Any:
        v = make(s)
        v[...] = 9
        return s, v

    for f in (of_a_result, of_an_element, of_an_argument):
        x, s = np.array([3.0, 5.0]), np.float64(4)
        for found, expected in zip(tj.jit(f)(x.copy(), s), f(x.copy(), s), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_numbers_have_no_elements_to_change():
    def f(x: Any) -> Any:
        s = x.max()
        s[...] = 1
        return s

    for function in (f, tj.jit(f)):
        with pytest.raises(TypeError):
            function(np.ones(2))


WHOSE_MEMORY = {
    "a slice of flat": "y = x.flat[:]; y[...] = 77",
    "a slice of flat, seen later": "y = x.flat[1:5]; x[...] = -1",
    "flat of T": "y = x.T.flat[::2]; x[...] = -1",
    "an iterator kept": "it = x.flat; y = it[2:5]; y[0] = 9; it[3] = 8",
    "flat in place": "x.flat[1:5] += 1; x.flat[2] = 9; x.flat[[1, 2]] = 3; y = x.flat[4]",
    "sparse grids": "y = np.meshgrid(x[0], x[1], copy=False, sparse=True)[0]; y[...] = 77",
    "grids": "y = np.meshgrid(x[0], x[1], copy=False)[0]; x[...] = -1",
    "copied grids": "y = np.meshgrid(x[0], x[1])[1]; x[...] = -1; y[...] = 3",
    "np.linalg.diagonal": "y = np.linalg.diagonal(x); x[...] = -1",
    "broadcast_to its own shape": "y = np.broadcast_to(x, x.shape); x[...] = -1",
    "max with a key": "y = max([x[:2], x[2:]], key=len); y[...] = 0",
    "min with a key": "y = min(x, x[:2], key=len); y[...] = 0",
    "block": "y = np.block(x); y.ravel()[:4] = 9",
    "mean of a list": "y = np.mean([x, x], axis=0); y.ravel()[:2] = 7",
    "max of a list of T": "y = np.max([x.T, x.T], axis=0); y.ravel()[:2] = 7",
    "var of a list": "y = np.var([x, x.copy()])",
    "norm of a list": "y = np.linalg.norm([x[0, 1], x[1, 1]])",
}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", WHOSE_MEMORY)
def test_what_shares_memory_with_the_array(name: str, order: str):
    body = "\n    ".join(WHOSE_MEMORY[name].split("; "))
    namespace: dict[str, Any] = {"np": np}
    exec(compile(f"def f(x):\n    {body}\n    return x, y", "program.py", "exec"), namespace)
    f, x = namespace["f"], np.array(np.arange(12.0).reshape(3, 4), order=order)  # type: ignore[call-overload]
    mine, theirs = x.copy(order="K"), x.copy(order="K")
    for found, expected in zip(tj.jit(f)(mine), f(theirs), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    "make", [lambda x: np.broadcast_to(x, x.shape), np.linalg.diagonal, lambda x: np.broadcast_to(x, x.shape)[0]]
)
def test_what_is_for_reading_is_not_written(make: Any):
    def f(x: Any) -> None:
        make(x)[...] = 1

    for function in (f, tj.jit(f)):
        with pytest.raises(ValueError, match=r"read-only|for reading"):
            function(np.ones((3, 3)))


def test_a_view_of_all_of_a_view_sees_later_writes():
    def f(x: Any) -> Any:
        y = x[..., ::-1]
        t, u = np.broadcast_to(y, y.shape), y.reshape(y.shape)
        w = y.flat
        y[-1] -= 4
        x[0] += 1
        return t, u, y, x, t.sum(), u[0], w[0]

    x = np.arange(8.0).reshape(2, 4)
    for found, expected in zip(tj.jit(f)(x.copy()), f(x.copy()), strict=True):
        np.testing.assert_array_equal(found, expected)


UNIT_AXES: dict[str, Any] = {
    "y[None]": lambda y: y[None],
    "y[:, None]": lambda y: y[:, None],
    "y[None, :, None]": lambda y: y[None, :, None],
    "reshape": lambda y: y.reshape(1, -1),
    "atleast_2d": np.atleast_2d,
    "y[None, 1:]": lambda y: y[None, 1:],
    "y[::-1][:, None]": lambda y: y[::-1][:, None],
    "y[None].T": lambda y: y[None].T,
    "y[2:5:2][None]": lambda y: y[1:5:2][None],
    "y": lambda y: y,
}


@pytest.mark.parametrize("way", UNIT_AXES)
@pytest.mark.parametrize("part", [
    slice(None, None, -1), slice(None, None, 2), slice(1, None, 3), slice(None), slice(1, 2), slice(0, 0), 0, -1,
])  # fmt: skip
def test_steps_and_traced_places_in_views_with_axes_of_one_element(way: str, part: Any):
    make = UNIT_AXES[way]
    for axis in range(make(np.zeros(6)).ndim):
        places = [slice(None)] * make(np.zeros(6)).ndim
        for other in range(len(places)):
            if other != axis:
                places[other] = part

        def read(y: Any, axis: int = axis, places: list[Any] = places) -> Any:
            v, s = make(y), np.zeros(1)
            for i in tj.range(v.shape[axis]):
                found = v[(*places[:axis], i, *places[axis + 1 :])]
                s[0] += (found * np.arange(1.0, found.size + 1).reshape(found.shape)).sum() * (i + 1)
            return s

        def written(y: Any, axis: int = axis, places: list[Any] = places) -> Any:
            y = y * 1
            v = make(y)
            for i in tj.range(2):
                v[(*places[:axis], i % v.shape[axis], *places[axis + 1 :])] += 10 * (i + 1)
            return y

        for f in (read, written):
            jitted = tj.jit(f)
            for n in (6, 6, 8):
                try:
                    want = f(np.arange(1.0, n + 1))
                except (ValueError, IndexError):
                    continue
                try:
                    got = jitted(np.arange(1.0, n + 1))
                except UnsupportedError:
                    assert f is written
                    assert isinstance(part, slice)
                    continue
                np.testing.assert_array_equal(got, want)


def test_a_chain_of_views_is_read_in_a_branch_in_a_time_that_grows_with_it():
    def turned(m: Any, c: Any) -> Any:
        for _ in range(14):
            m = m[::-1]
            m = m.T
        if c[0] > 1:
            c = c + m[0]
        return c

    m = np.arange(16.0).reshape(4, 4)
    start = time.process_time()
    np.testing.assert_array_equal(tj.jit(turned)(m, np.arange(2.0, 6.0)), turned(m, np.arange(2.0, 6.0)))
    assert time.process_time() - start < 20  # it would be hours
