"""Whether something is a view or a copy follows from how arrays lie in memory; NumPy itself is asked what it does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import UnsupportedError
from tracejit.tracer.layout import UNKNOWN, Open
from tracejit.tracer.operators import OPERATORS


def arranged(how: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray:
    """An array of this shape that lies in memory in one of several ways, all elements different."""
    rank = len(shape)
    if how == "C":
        return np.arange(float(np.prod(shape))).reshape(shape)
    if how == "F":
        return np.asfortranarray(arranged("C", shape))
    wide = np.arange(float(np.prod([2 * n for n in shape]))).reshape([2 * n for n in shape])
    if how == "strided":
        return wide[(slice(None, None, 2),) * rank]
    if how == "columns":
        return wide[(*(slice(n) for n in shape[:-1]), slice(1, None, 2))]
    if how == "reversed":
        return arranged("C", shape)[::-1]
    if how == "rotated":
        return np.moveaxis(arranged("C", (shape[-1], *shape[:-1])), 0, -1)
    return wide[tuple(slice(n) for n in shape)]


ORDERS = ("C", "F", "strided", "columns", "reversed", "rotated", "inner")

STATEMENTS = [
    "y = np.ascontiguousarray(x); y[0] = 7", "y = np.asfortranarray(x); y[0] = 7", "y = x.ravel(); y[0] = 7",
    "y = x.reshape(-1); y[1] = 7", "y = x.reshape(4, 3); y[0] = 7", "y = x.reshape(2, 6); x[0] = 7",
    "y = x.reshape(3, 2, 2); y[0] = 7", "y = x.T + 1; y.ravel()[0] = 99", "y = x.T.copy(); y.ravel()[0] = 99",
    "y = x.copy(); y.ravel()[0] = 99", "y = np.array(x.T); y.ravel()[0] = 99", "y = np.copy(x); y.ravel()[0] = 99",
    "y = np.zeros_like(x.T); y.ravel()[0] = 99", "y = np.empty_like(x); y[:] = 1; y.ravel()[0] = 9",
    "y = x.astype('f4'); y.ravel()[0] = 99", "y = x.astype(float, copy=False); y[0] = 99",
    "y = x[:, [0, 1]]; y.ravel()[0] = 99", "y = x[[0, 2]]; y.ravel()[0] = 99", "y = x[:, [0, 1]].T; y.ravel()[0] = 99",
    "y = np.sqrt(x).T; y.reshape(-1)[1] = 5", "y = x * x.T[0, 0]; y.ravel()[1] = 5", "y = x + x[0]; y.ravel()[1] = 5",
    "y = np.where(x > 3, x, 0); y.ravel()[2] = 5", "y = np.einsum('ij->ji', x); y[0] = 5",
    "y = np.einsum('ii->i', x[:3, :3]); y[:] = 5", "y = np.einsum('ij->ij', x); y[0] = 5",
    "y = np.broadcast_to(x[:1], (3, 4)).ravel('K')", "y = np.broadcast_to(x[:, :1], (3, 4)).T.flatten('K')",
    "y = x.ravel('K'); y[1] = 5", "y = x.ravel('F'); y[1] = 5", "y = x.ravel('A'); y[1] = 5",
    "y = x.flatten('K'); y[1] = 5", "y = x.flatten('F'); y[1] = 5", "y = x.reshape(6, 2, order='F'); y[0] = 5",
    "y = x.reshape(4, 3, order='A'); y[0] = 5", "y = np.full_like(x, 2); y.ravel()[0] = 5",
    "y = np.array(x, order='F'); y.ravel()[0] = 5", "y = np.asarray(x, order='C'); y[0] = 5",
    "y = np.zeros((3, 4), order='F'); y.ravel()[0] = 5", "y = np.ones((3, 4)).T; y.ravel()[0] = 5",
    "y = x.copy('F'); y.T.ravel()[0] = 5", "y = x.reshape(x.shape); y[0] = 5", "y = np.atleast_3d(x); y.ravel()[0] = 5",
    "y = np.clip(x, 1, 5); y.ravel()[0] = 9", "y = x @ x.T; y.ravel()[0] = 9",
    "y = np.flip(x, 1).reshape(-1); y[0] = 9", "y = (x.T * 2).reshape(2, 6); y[0] = 9; x[0] = y[1, 0]",
    "y = x.T; z = y * 2; w = z.reshape(3, 4); w[0] = 9; y = z", "y = x.swapaxes(0, 1).reshape(12); y[5] = 1",
    "y = -x; y.ravel()[0] = 9", "y = np.linspace(x[0], x[1], 3, axis=-1) + 0; y[0] = 9",
    "y = x[1:].T.reshape(-1); y[0] = 9", "y = x.T[1:3].copy(); y.ravel()[0] = 9",
    "y = np.broadcast_to(x[0], (3, 4)) + x; y.ravel()[0] = 9",
    "y = np.broadcast_to(x[:, :1], (3, 4)) * 2; y.ravel()[0] = 9", "y = np.array([x[0], x[1]]); y.ravel()[0] = 9",
    "y = np.require(x, requirements='C'); y[0] = 1",
]  # fmt: skip


def program(statement: str) -> Callable[[Any], Any]:
    scope: dict[str, Any] = {"np": np}
    exec(compile(f"def f(x):\n    {statement}\n    return x + 0, y + 0", "user_program.py", "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize("how", ORDERS)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_writes_reach_what_numpy_shares_in_every_memory_order(statement: str, how: str):
    f = program(statement)
    mine, theirs = arranged(how), arranged(how)
    want, got = f(theirs), tj.jit(f)(mine)
    np.testing.assert_array_equal(mine, theirs)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


RECORD = np.dtype([("flag", "u1"), ("x", "f8")])
FOREIGN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "big-endian": lambda x: x.astype(">f8"),
    "big-endian rows apart": lambda x: np.repeat(x.astype(">f8"), 2, axis=0)[::2],
    "big-endian columns": lambda x: np.asfortranarray(x.astype(">f8")),
    "misaligned": lambda x: np.frombuffer(bytearray(b" " + x.tobytes()), x.dtype, offset=1).reshape(x.shape),
    "field of records": lambda x: _records(x)["x"],
    "field of records, turned": lambda x: _records(x.T)["x"].T,
}


def _records(x: np.ndarray) -> np.ndarray:
    made = np.zeros(x.shape, RECORD)
    made["x"] = x
    return made


@pytest.mark.parametrize("how", FOREIGN)
def test_arrays_that_are_copied_for_the_program_lie_where_they_lay(how: str):
    """Misaligned arrays and those of foreign byte order are passed as packed copies,
    which says nothing of what is a view."""
    for statement in STATEMENTS:
        if "big-endian" in how and "copy=False" in statement:
            continue  # their dtype is a native one in the function, so that this is no copy
        f = program(statement)
        mine, theirs = FOREIGN[how](arranged("C")), FOREIGN[how](arranged("C"))
        want, got = f(theirs), tj.jit(f)(mine)
        np.testing.assert_array_equal(mine, theirs, statement)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w, statement)


EXPRESSIONS = [
    "x", "x.T", "x + 1", "x.T * 2", "x + x.T", "x.T + x.T", "-x.transpose(1, 0, 2)", "x + x[0]", "x + x[:, :1]",
    "np.sqrt(x)", "x[1:] * 2", "x[::-1] + 1", "x[:, ::-1].T - 1", "np.copy(x)", "x.copy()", "np.array(x.T)",
    "x.astype('i8')", "np.zeros_like(x)", "np.ones_like(x.transpose(2, 0, 1))", "np.where(x > 1, x, x.T)",
    "np.maximum(x, x.T)", "x[[0, 1]]", "x[:, [0, 1]]", "x[:, :, [0, 1]]", "x[[0, 1], :, [0, 1]]",
    "x[:, [0, 1], [0, 1]]", "x[:, np.array([[0, 1], [1, 0]])]", "x[0, :, [0, 1]]", "x[:, 0, [0, 1]]", "x[None, [0, 1]]",
    "x[:, None, [0, 1]]", "x[:, [0, 1], 1:3]", "x.T[[0, 1]]", "x.T[:, [0, 1]]", "x.transpose(1, 0, 2)[:, [0, 1]]",
    "x.T[[0, 1], [0, 1]]", "np.einsum('ijk->kji', x)", "np.einsum('ijk,k->ij', x, x[0, 0])",
    "np.einsum('ijk,jl->ikl', x, x[0])", "np.einsum('ijk->ki', x)", "np.einsum('iik->ki', x)", "x[0] @ x[1]", "x.T @ x",
    "np.full_like(x, 3)", "np.asfortranarray(x)", "np.ascontiguousarray(x)", "np.array(x, order='F')",
    "x.reshape(-1, 3)", "x.reshape(9, 3).T", "np.broadcast_to(x[0], x.shape) + 1",
    "np.broadcast_to(x[:, :1], x.shape).copy()", "np.zeros_like(np.broadcast_to(x[0], x.shape))", "np.clip(x.T, 0, 1)",
    "np.round(x.T)", "x.T > 3", "~(x.T > 3)", "np.outer(x[0, 0], x[:, 0, 0])", "np.tensordot(x, x[0], 1)",
    "np.moveaxis(x, 0, 1) + x", "x.diagonal() * 1", "np.sum(x, 0)", "x.mean(1)", "x.T.max(axis=2)",
    "np.std(x, axis=1, keepdims=True)", "np.var(x, (0,))", "np.argmax(x, 1)", "np.ptp(x, 0)", "np.nansum(x, axis=1)",
    "np.nanmax(x, 0)", "np.cumsum(x, 1)", "np.cumprod(x.T, 0)", "np.any(x, 2)", "np.count_nonzero(x, axis=0)",
    "np.pad(x, 1)", "np.pad(x.T, 1, mode='edge')", "np.diff(x, axis=0)", "np.diff(x.T, 2)",
    "np.diff(x, axis=1, prepend=0)", "np.diff(x, 1, 0, 5.0)", "np.roll(x, 1, 0)", "np.concatenate([x, x])",
    "np.take(x, [0, 1], 1)", "np.repeat(x, 2, 1)", "np.tile(x.T, 2)", "np.roll(x, 1)", "np.nan_to_num(x.T)",
    "np.isclose(x.T, 1)", "np.squeeze(x[:1].T) + 0", "np.hypot(x.T, 1)",
]  # fmt: skip


NOT_FOLLOWED = ("np.concatenate([x, x])", "np.diff(x, axis=1, prepend=0)", "np.diff(x, 1, 0, 5.0)")


@pytest.mark.parametrize("how", ORDERS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_layouts_are_numpys(expression: str, how: str):
    layouts: list[Any] = []

    def f(x: Any) -> Any:
        y = eval(expression, {"x": x, "np": np})
        layout = OPERATORS.layout(y)
        if isinstance(layout, Open):
            raise layout.error
        layouts.append(layout)
        return y

    x = arranged(how, (3, 3, 3))
    want = eval(expression, {"x": x, "np": np})
    tj.jit(f).lower(x)
    (layout,) = layouts
    if layout is None:
        assert want.flags.c_contiguous, want.strides
    elif layout is not UNKNOWN:
        wide = [d for d, n in enumerate(want.shape) if n > 1]
        assert [layout[d] for d in wide] == [want.strides[d] for d in wide]
    else:
        assert expression in NOT_FOLLOWED
        assert how != "C"


def test_a_write_that_decides_is_refused_by_name_where_the_order_is_not_followed():
    def f(x: Any) -> Any:
        y = np.concatenate([x.T, x.T])
        flat = y.ravel()
        flat[0] = 7
        return y

    with pytest.raises(
        UnsupportedError, match=r"(?s)whether the result of ravel is a view or a copy.*flat\[0\] = 7"
    ) as info:
        tj.jit(f)(arranged("C"))
    assert "copy it first" in str(info.value)

    def g(x: Any) -> Any:
        return np.concatenate([x.T, x.T]).ravel() + 1

    np.testing.assert_array_equal(tj.jit(g)(arranged("C")), g(arranged("C")))


def test_strides_are_asked_for_only_where_a_write_depends_on_them():
    def reads(x: Any) -> Any:
        return x.ravel() + x.reshape(-1)

    def writes(x: Any) -> Any:
        y = x.ravel()
        y[0] = 7
        return y

    f, g = tj.jit(reads), tj.jit(writes)
    for how in ORDERS:
        x = arranged(how)
        np.testing.assert_array_equal(f(x), reads(x))
        mine, theirs = arranged(how), arranged(how)
        np.testing.assert_array_equal(g(mine), writes(theirs))
        np.testing.assert_array_equal(mine, theirs)
    assert f.compilations == 2  # contiguous, strided


@pytest.mark.parametrize("how", ORDERS)
def test_sizes_change_in_every_order(how: str):
    def f(x: Any) -> Any:
        y = x.T * 2
        flat = y.ravel()
        flat[0] = 7
        x.reshape(-1)[1] = 5
        return y, flat

    g = tj.jit(f)
    for shape in ((3, 4), (4, 4), (1, 4), (4, 1), (2, 2), (5, 3), (6, 3), (1, 1), (3, 4)):
        if np.prod(shape) < 2:
            continue
        mine, theirs = arranged(how, shape), arranged(how, shape)
        for a, b in zip(g(mine), f(theirs), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("how", ORDERS)
def test_transformations_see_the_memory_order_of_their_arguments(how: str):
    def f(x: Any) -> Any:
        y = x * 2
        flat = y.ravel()
        flat[0] = 0
        return np.sum(y * y) + np.sum(flat)

    x = arranged(how)
    shared = np.shares_memory((x * 2).ravel(), x * 2) or (x * 2).flags.c_contiguous
    want = 8 * x + 2
    want[0, 0] = 0.0 if shared else 8 * x[0, 0]
    for g in (tj.grad(f), tj.jit(tj.grad(f))):
        np.testing.assert_array_equal(g(x), want)
    stack = np.stack([x, x + 1])
    rows = [f(row) for row in stack]
    np.testing.assert_array_equal(tj.vmap(f)(stack), rows)
    for axis in (0, 1, 2):
        moved = np.moveaxis(stack, 0, axis)
        rows = [f(np.moveaxis(moved, axis, 0)[k]) for k in range(2)]
        np.testing.assert_array_equal(tj.vmap(f, in_axes=axis)(moved), rows)
        np.testing.assert_array_equal(tj.jit(tj.vmap(f, in_axes=axis))(moved), rows)


def test_a_trace_that_starts_again_for_strides_has_its_effects_once():
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(len(calls))
        y = x.ravel()
        y[0] = 7
        return y

    x = arranged("F")
    np.testing.assert_array_equal(tj.jit(f)(x), f(arranged("F")))
    assert len(calls) == 2
    np.testing.assert_array_equal(x, arranged("F"))


@pytest.mark.parametrize(
    "make", [np.zeros_like, np.ones_like, np.empty_like, lambda x, **options: np.full_like(x, 3, **options)]
)
@pytest.mark.parametrize("order", ["A", "K", "C", "F"])
@pytest.mark.parametrize("shape", [(2, 3, 2), (6,), (2, 6), ()])
@pytest.mark.parametrize("prototype", ["C", "F"])
def test_what_is_made_like_an_array_in_another_shape(make: Any, order: str, shape: tuple[int, ...], prototype: str):
    def f(x: Any) -> Any:
        made = make(x, order=order, shape=shape)
        made[...] = 0
        made.ravel()[:3] = 8
        made.ravel("F")[-2:] = 9
        return made

    x = np.array(np.arange(12.0).reshape(3, 4), order=prototype)
    np.testing.assert_array_equal(tj.jit(f)(x), f(x))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("make", [
    lambda x, axis: np.linspace(x, 5, 3, axis=axis), lambda x, axis: np.linspace(x, 5, 3, axis=axis, retstep=True)[0],
    lambda x, axis: np.logspace(x * 0, 2, 3, axis=axis),
    lambda x, axis: np.round(np.geomspace(x + 1, 64, 3, axis=axis), 9),
    lambda x, axis: np.cross(np.stack([x, x + 1, x * 2]), [1, 2, 3], axisa=0, axisc=axis),
])  # fmt: skip
def test_what_numpy_moves_an_axis_of_lies_in_memory_as_there(make: Any, axis: int, order: str):
    def f(x: Any) -> Any:
        made = make(x, axis)
        made.ravel()[:2] = 50
        made.ravel("F")[-2:] = 60
        return made

    x = np.array(np.arange(6.0).reshape(2, 3), order=order)
    if order == "F" and "cross" not in make.__code__.co_names:
        with pytest.raises(UnsupportedError, match="memory order"):
            tj.jit(f)(x)
    else:
        np.testing.assert_allclose(tj.jit(f)(x), f(x), rtol=1e-14)


@pytest.mark.parametrize("make", [
    lambda x: np.nancumsum(x, 1), lambda x: np.nancumprod(x, 0), lambda x: np.cumsum(x, 1),
    lambda x: np.nancumsum(x.T, 0),
])  # fmt: skip
def test_running_sums_lie_as_what_they_run_over(make: Any):
    def f(x: Any) -> Any:
        made = make(x)
        made.ravel()[:2] = 50
        made.ravel("F")[-2:] = 60
        return made

    for x in (
        np.arange(9.0).reshape(3, 3),
        np.repeat(np.arange(9.0).reshape(3, 3), 2, axis=0)[1::2],
        np.asfortranarray(np.ones((3, 3))),
    ):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))
