"""A copy is an array of its own wherever it is made: in loops, branches, under transformations,
by functions that have nothing to do."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

COPIES = [
    "b.copy()", "np.copy(b)", "np.array(b)", "np.array(b, copy=True)", "b.astype(b.dtype)", "b.astype(float)", "+b",
    "np.positive(b)", "b**1", "np.power(b, 1)", "b.conj()", "np.conjugate(b)", "b.flatten()", "np.roll(b, 0)",
    "np.tile(b, 1)", "np.pad(b, 0)", "np.concatenate([b])", "np.concatenate([b, b[:0]])", "np.append(b, [])",
    "np.delete(b, [])", "np.repeat(b, 1)", "np.resize(b, 4)", "np.hstack([b])", "np.vstack([b])[0].copy()",
    "np.stack([b])[0]", "np.nan_to_num(b)", "np.clip(b, None, 1e9)", "np.round(b, 12)", "np.where(True, b, b)",
    "np.sum(b, axis=())", "np.max(b, axis=())", "np.select([b == b], [b])", "np.fmax(b, b)", "b[[0, 1, 2, 3]]",
    "b.take([0, 1, 2, 3])", "np.take(b, np.arange(4))", "b + 0", "b * 1", "np.asarray(b, dtype='f8').copy()",
    "np.ones_like(b) * b", "np.float32(b).astype('f8')", "copy.copy(b)", "copy.deepcopy(b)",
    "np.add.reduce(b, axis=())", "np.block([b])", "np.atleast_1d(b) + 0",
]  # fmt: skip


def source(body: str, copying: str) -> Callable[..., Any]:
    import copy

    scope: dict[str, Any] = {"np": np, "tj": tj, "copy": copy}
    exec(compile(body.replace("COPY", copying), "user_program.py", "exec"), scope)
    return scope["f"]


RANGE = """
def f(b, loop):
    s = np.zeros(4)
    for _ in loop(3):
        old = COPY
        b[1:-1] = 0.5 * (old[:-2] + old[2:])
        old += 1
        s += old
    return b, s
"""
UNUSED = """
def f(b, loop):
    s = np.zeros(4)
    for _ in loop(3):
        t = COPY
        t += 1
        s += t
    return s + b
"""
CARRIED = """
def f(b, fori):
    s = np.zeros(4)
    def body(i, c):
        t = COPY
        t[0] += 1 + i
        s[:] += t
        b[1] += t[0]
        return c + t
    c = fori(0, 3, body, np.zeros(4))
    return b, s, c
"""


@pytest.mark.parametrize("copying", COPIES)
@pytest.mark.parametrize("body", [RANGE, UNUSED], ids=["kept", "changed"])
def test_copies_in_a_loop_are_made_in_every_iteration(body: str, copying: str):
    f = source(body, copying)
    mine, theirs = np.arange(4.0) ** 2, np.arange(4.0) ** 2
    want = f(theirs, range)
    for loop in (tj.range, range):
        mine = np.arange(4.0) ** 2
        got = tj.jit(lambda b, loop=loop: f(b, loop))(mine)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(mine, theirs)


def plain_fori(low: int, high: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    for i in range(low, high):
        carry = body(i, carry)
    return carry


def as_while(low: int, high: int, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    return tj.lax.while_loop(lambda s: s[0] < high, lambda s: (s[0] + 1, body(s[0], s[1])), (low, carry))[1]


@pytest.mark.parametrize("copying", COPIES)
@pytest.mark.parametrize("fori", [tj.lax.fori_loop, as_while], ids=["fori_loop", "while_loop"])
def test_copies_in_bodies_of_loops(fori: Callable[..., Any], copying: str):
    f = source(CARRIED, copying)
    mine, theirs = np.arange(4.0) ** 2, np.arange(4.0) ** 2
    for g, w in zip(tj.jit(lambda b: f(b, fori))(mine), f(theirs, plain_fori), strict=True):
        np.testing.assert_array_equal(g, w)
    np.testing.assert_array_equal(mine, theirs)


# of real arrays NumPy gives the array itself
@pytest.mark.parametrize("copying", [c for c in COPIES if c != "b.conj()"])
def test_copies_of_outer_arrays_under_transformations(copying: str):
    captured = np.arange(4.0) ** 2
    scope: dict[str, Any] = {"np": np, "copy": __import__("copy"), "b": captured}
    exec(f"def f(a):\n    c = {copying}\n    c[0] = a[0]\n    c[1] += 2 * a[1]\n    return c", scope)
    f = scope["f"]
    rows = np.arange(8.0).reshape(2, 4)
    want = np.stack([f(row) for row in rows])
    for mapped in (tj.vmap(f), tj.jit(tj.vmap(f)), tj.jit(lambda r: tj.vmap(f)(r))):
        np.testing.assert_array_equal(mapped(rows), want)

    def total(a: Any) -> Any:
        return np.sum(f(a) * np.arange(4.0))

    for gradient in (tj.grad(total), tj.jit(tj.grad(total))):
        np.testing.assert_allclose(gradient(rows[1]), [0, 2, 0, 0], atol=1e-12)
    np.testing.assert_array_equal(captured, np.arange(4.0) ** 2)


@pytest.mark.parametrize("copying", COPIES)
def test_copies_in_branches(copying: str):
    scope: dict[str, Any] = {"np": np, "tj": tj, "copy": __import__("copy")}
    exec(
        f"def f(b, cond):\n    def yes(x):\n        c = {copying}\n        c += 1\n        b[0] = 7\n        return c "
        "+ x\n"
        "    r = cond(b[1] > 0, yes, lambda x: x * b, b * 1)\n    return r, b",
        scope,
    )
    f = scope["f"]

    def plain(p: Any, yes: Callable[..., Any], no: Callable[..., Any], *args: Any) -> Any:
        return yes(*args) if p else no(*args)

    for first in (1.0, -1.0):
        mine, theirs = np.full(4, first), np.full(4, first)
        for g, w in zip(tj.jit(lambda b: f(b, tj.lax.cond))(mine), f(theirs, plain), strict=True):
            np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "branch",
    [
        lambda x, body: tj.lax.cond(True, body, lambda x: x, x),
        lambda x, body: tj.lax.cond(x[0] >= 0, body, lambda x: x, x), lambda x, body: tj.lax.switch(0, [body, body], x),
        lambda x, body: tj.lax.fori_loop(0, 1, lambda i, x: body(x), x),
        lambda x, body: tj.lax.while_loop(lambda x: x[1] < 5, body, x),
        lambda x, body: tj.lax.scan(lambda c, y: (body(c), y), x, x)[0],
    ],
)  # fmt: skip
def test_bodies_work_on_arrays_of_their_own_eager_and_compiled(branch: Callable[..., Any], compiled: bool):
    def body(x: Any) -> Any:
        x[1] += 5
        return x

    def f(x: Any) -> Any:
        y = branch(x, body)
        y[0] = 9
        return y

    x = np.zeros(3)
    y = (tj.jit(f) if compiled else f)(x)
    np.testing.assert_array_equal(x, 0)
    assert y[0] == 9
    assert y[1] >= 5


def test_carries_that_no_iteration_changes_are_not_the_arrays_given():
    def f(x: Any, y: Any) -> Any:
        a, b = tj.lax.fori_loop(0, 3, lambda i, c: (c[0] + c[1], c[1]), (x, y))
        b[0] = 9
        c = tj.lax.while_loop(lambda c: c[0][0] < 100, lambda c: (c[0] * 2 + 1, c[1]), (x, y))[1]
        c[0] = 8
        return a, b, c

    x, y = np.zeros(2), np.ones(2)
    a, b, c = tj.jit(f)(x, y)
    np.testing.assert_array_equal(y, 1)
    np.testing.assert_array_equal((a, b, c), ([3, 3], [9, 1], [8, 1]))


def test_carries_that_no_iteration_changes_are_the_values_before_the_body_changed_the_array():
    def fori(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            x[0] += 9
            return c

        return tj.lax.fori_loop(0, 2, body, x)

    def repeated(x: Any) -> Any:
        def body(s: Any) -> Any:
            x[0] += 9
            return s[0] + 1, s[1]

        return tj.lax.while_loop(lambda s: s[0] < 2, body, (0, x))[1]

    def scanned(x: Any) -> Any:
        def body(c: Any, i: Any) -> Any:
            x[0] += 9
            return c, i

        return tj.lax.scan(body, x, np.arange(2))[0]

    for f in (fori, repeated, scanned):
        x = np.arange(3.0)
        np.testing.assert_array_equal(tj.jit(f)(x), [0, 1, 2])
        np.testing.assert_array_equal(x, [18, 1, 2])


def test_results_of_transformations_and_of_inner_functions_are_arrays_of_their_own():
    same = tj.jit(lambda x: x)

    def f(x: Any) -> Any:
        for g in (
            same,
            tj.vmap(lambda r: r),
            lambda x: tj.vjp(lambda x: x, x)[0],
            lambda x: tj.jvp(lambda x: x, (x,), (x,))[0],
        ):
            y = g(x)
            y[0] = 9
        return x + 0

    x = np.zeros(3)
    np.testing.assert_array_equal(tj.jit(f)(x), 0)
    np.testing.assert_array_equal(x, 0)
    y = same(x)
    y[0] = 9
    np.testing.assert_array_equal(x, 0)


def test_names_for_results_of_lax_are_not_names_for_operands():
    def f(x: Any) -> Any:
        for y in (
            tj.lax.reshape(x, (3,)),
            tj.lax.broadcast_in_dim(x, (3,), (0,)),
            tj.lax.slice(x, (0,), (3,)),
            tj.lax.rev(x, ()),
        ):
            y[0] = 9
        return x + 0

    np.testing.assert_array_equal(tj.jit(f)(np.zeros(3)), 0)


def test_arrays_from_outside_are_not_changed_by_eager_transformations():
    captured = np.zeros(3)

    def f(a: Any) -> Any:
        captured[0] = a
        return captured

    with pytest.raises(TracejitError, match="outside"):
        tj.vmap(f)(np.arange(2.0))
    np.testing.assert_array_equal(captured, 0)


@pytest.mark.parametrize("loop", [plain_fori, tj.lax.fori_loop])
def test_bodies_of_loops_outside_of_traces_do_not_change_arrays_once_instead_of_every_time(loop: Callable[..., Any]):
    m = np.zeros(3)

    def body(i: Any, c: Any) -> Any:
        m[0] += 1
        return c + m[0]

    if loop is plain_fori:
        assert loop(0, 3, body, 0.0) == 6
        return
    with pytest.raises(TracejitError, match=r"(?s)outside of the traced function.*m\[0\] \+= 1"):
        loop(0, 3, body, 0.0)
    np.testing.assert_array_equal(m, 0)


def test_bodies_outside_of_traces_make_arrays_and_fill_them():
    weights = np.arange(3.0)

    def body(i: Any, c: Any) -> Any:
        t = np.zeros(3)
        t[i] = weights[i]
        return c + t

    np.testing.assert_array_equal(tj.lax.fori_loop(0, 3, body, np.zeros(3)), weights)


ORDERS = {
    "C": lambda: np.arange(20.0).reshape(4, 5), "F": lambda: np.asfortranarray(np.arange(20.0).reshape(4, 5)),
    "reversed": lambda: np.arange(20.0).reshape(4, 5)[::-1], "strided": lambda: np.arange(40.0).reshape(4, 10)[:, ::2],
    "F reversed": lambda: np.asfortranarray(np.arange(20.0).reshape(4, 5))[:, ::-1],
    "rank 3": lambda: np.arange(60.0).reshape(3, 4, 5).transpose(2, 0, 1),
}  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("places", [[], [1], 1, -1, slice(0, 0), slice(1, 2), slice(None, None, 2), [0, 2], "mask"])
def test_what_is_left_lies_in_memory_as_numpys(order: str, places: Any):
    for axis in range(ORDERS[order]().ndim):
        where = [True] + [False] * (ORDERS[order]().shape[axis] - 1) if places == "mask" else places

        def f(x: Any, where: Any = where, axis: int = axis) -> Any:
            t = np.delete(x, where, axis=axis)
            t.ravel()[:3] = -1
            t.T.ravel()[-2:] = -2
            t.reshape(-1)[4:5] = -3
            return t

        np.testing.assert_array_equal(tj.jit(f)(ORDERS[order]()), f(ORDERS[order]()))


@pytest.mark.parametrize("order", ORDERS)
def test_loops_and_branches_work_on_copies_as_numpys_copy_lies(order: str):
    """They get and give what np.copy gives: positive strides, in the order of the axes."""

    def change(t: Any) -> Any:
        t.reshape(-1)[7:10] = -1
        t.ravel()[::2] = -2
        return t

    x = ORDERS[order]()
    want = change(np.copy(x))
    for f in (
        lambda x: change(tj.lax.fori_loop(0, 2, lambda i, c: c, x)),
        lambda x: change(tj.lax.while_loop(lambda c: np.sum(c) < -1e9, lambda c: c, x)),
        lambda x: tj.lax.cond(x.sum() > -1e9, change, lambda t: t, x),
        lambda x: tj.lax.fori_loop(0, 1, lambda i, c: change(c), x),
        lambda x: change(tj.lax.cond(x.sum() > -1e9, lambda t: t, lambda t: t, x)),
    ):
        np.testing.assert_array_equal(tj.jit(f)(x), want)


def test_one_array_as_two_arguments_leaves_no_program_for_others():
    """Where the writes of a version for one array given twice vanish, it is not taken for two arrays."""

    def halves(a: Any, b: Any) -> Any:
        b[:2] = a[:2]
        b[2:] = a[2:]
        return b * 1

    def mixed(a: Any, b: Any) -> Any:
        a[::2] = b[::2]
        b[1::2] = a[1::2]
        return a + b

    for f in (halves, mixed):
        jitted, z = tj.jit(f), np.arange(8.0)
        for first in (True, False):
            if first:
                jitted(z[:4], z[:4])
            plain, traced = [np.arange(4.0), np.ones(4)], [np.arange(4.0), np.ones(4)]
            np.testing.assert_array_equal(jitted(*traced), f(*plain))
            np.testing.assert_array_equal(traced, plain)
            jitted(z[:4], z[:4])
        locked = np.ones(4)
        locked.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            jitted(np.ones(4), locked)


RANK_0 = [
    "s.sum()", "s.max()", "s.min()", "s.prod()", "s.mean()", "s.any()*1.", "s[...]", "s[()]", "a[0]", "a[0,...]",
    "a[...,0]", "np.squeeze(a[:1])", "a[:1].reshape(())", "np.roll(s,1)", "np.tensordot(a,a,1)", "np.sum(s)", "s+1",
    "np.where(s>0,s,s)", "np.asarray(s)", "np.array(s)", "s.copy()", "np.isin(s,a)*1.", "np.broadcast_to(s,()).copy()",
    "np.full((),2.)", "s.astype(float)", "np.real(s)", "s.T", "s.flat[0]", "np.float64(s)", "np.dot(s,s)",
    "np.clip(s,0,1)", "s.clip(0,1)", "np.round(s)", "s.round()", "np.diagonal(a[:1,None])[0]", "a.max()",
    "np.atleast_1d(s)[0]", "np.ravel(s)[0]", "np.nan_to_num(s)", "np.positive(s)", "np.transpose(s)", "np.squeeze(s)",
    "np.flip(s)", "np.expand_dims(s,0)[0]", "a.reshape(3,1)[0,0]", "a[1:][0]", "a.take(0)", "np.take(a,0)",
    "a.ravel()[0]", "s.squeeze()", "s.reshape(())", "s.view()",
]  # fmt: skip


@pytest.mark.parametrize("form", RANK_0)
def test_what_is_a_number_and_what_an_array_of_rank_0(form: str):
    """`t += 1` makes another number, and changes an array for all its names."""

    def changed(t: Any, s: Any, a: Any) -> Any:
        u = t
        t += 1
        return np.array([u + 0, t + 0, s + 0, a[0] + 0])

    f = eval(f"lambda s, a: changed({form}, s, a)", {"np": np, "changed": changed})
    np.testing.assert_array_equal(tj.jit(f)(np.array(2.0), np.arange(3.0)), f(np.array(2.0), np.arange(3.0)))


OF_SCALARS = [
    "x[...,0]**2", "x[0]**2", "x[0,...]**2", "x[:1].reshape(())**2", "np.squeeze(x[:1])**2", "(x[...,0]==True)**2",
    "(y[...,0]>1)**2", "s**2", "s[()]**2", "s[...]**2", "(s|s)**2", "isinstance(x[...,0],np.ndarray)",
    "isinstance(x[0],np.ndarray)", "isinstance(x[0],np.bool_)", "isinstance(y[...,1],np.floating)",
    "isinstance(z[()],np.ndarray)", "isinstance(z[...],np.ndarray)", "np.isscalar(y[0])", "np.isscalar(y[...,0])",
    "np.isscalar(z)", "type(y[0]).__name__", "type(y[...,0]).__name__", "round(float(y[0]),1)",
]  # fmt: skip


@pytest.mark.parametrize("form", OF_SCALARS)
def test_what_is_a_scalar_to_numpy(form: str):
    """A view of one element is an array of rank 0, an element is a scalar:
    their squares of bools differ, and their types."""
    f = eval(f"lambda x, s, y, z: {form}", {"np": np})
    arguments = np.array([True, False]), np.array(True), np.array([1.5, 2.5]), np.array(2.5)
    found, want = tj.jit(f)(*arguments), f(*arguments)
    assert type(found) is type(want)
    assert (np.asarray(found).dtype, found) == (np.asarray(want).dtype, want)


def test_a_view_that_a_loop_reads_first_after_a_write():
    """Its value belongs to the trace around the loop, not to the body that asks for it."""

    def f(x: Any, y: Any) -> Any:
        t = x[2:5]
        t -= y[1]
        for _ in tj.range(3):
            u = np.asfortranarray(t)
            x[0] += u[0]
        return t, tj.lax.fori_loop(0, 3, lambda i, c: c, t), t + 0

    for x in (np.arange(6.0), np.arange(12.0)[::2], np.arange(6.0)[::-1]):
        plain, traced = np.array(x)[::1].copy(), x.copy()
        strided = np.repeat(traced, 2)[::2]
        t = plain[2:5]
        t -= 1
        for _ in range(3):
            plain[0] += t[0]
        for got in tj.jit(f)(strided, np.ones(3)):
            np.testing.assert_array_equal(got, t)
        np.testing.assert_array_equal(strided, plain)


PLACES = [
    "np.array(1)", "j", "(np.array(1), slice(None))", "(j, slice(1, None))", "(slice(None), j)", "np.asarray(j)",
    "np.asarray(n)", "(Ellipsis, j)", "(j, Ellipsis)", "(j, 0)", "n", "np.argmax(x[0]) - 2", "j.reshape(())", "j[()]",
    "j + 0", "(None, j)", "k[0]", "k[..., 0]", "np.int64(1)", "j.copy()", "(j, j)", "(j, [0, 1])",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_index_that_is_an_array_of_rank_0_copies(place: str):
    """An integer, or a NumPy scalar, gives a view; an array of rank 0 a copy."""
    for statements in (
        "w = x[I]; w *= 2; return x",
        "w = x[I]; x += 100; return w",
        "x[I] *= 2; return x",
        "x[I] = 5; return x",
    ):
        names: dict[str, Any] = {"np": np}
        exec(f"def f(x, j, n, k):\n    I = {place}\n    {statements}", names)
        results: list[Any] = []
        for f in (names["f"], tj.jit(names["f"])):
            x = np.arange(12.0).reshape(3, 4)
            results.append((np.array(f(x, np.array(1), 1, np.array([1, 2]))), x))
        np.testing.assert_array_equal(results[1][0], results[0][0])
        np.testing.assert_array_equal(results[1][1], results[0][1])


EXTREMA = [
    "max(x[0], x[1])", "min(x[0], x[1])", "max(x)", "max([x[0], 3.0])", "min(max(x[0], 0), 5)",
    "functools.reduce(max, [x[0], x[1]])", "max(n, 1)", "max(x.max(), x.min())",
    "x.reshape(x.shape, copy=True)", "np.reshape(x, (3,), copy=True)", "x[::-1].reshape(3, copy=True)",
    "np.array(x, copy=None)", "np.asarray(x, copy=False)",
]  # fmt: skip


@pytest.mark.parametrize("form", EXTREMA)
def test_numbers_of_max_and_copies_of_reshape(form: str):
    names: dict[str, Any] = {"np": np, "functools": functools}
    exec(f"def f(x, n):\n    s = {form}\n    t = s\n    s += 1\n    return t * 1, s * 1", names)
    for make in (lambda: np.array([1.0, 2.0, 4.0]), lambda: np.arange(12.0)[::4] + 1):
        plain, traced = make(), make()
        for got, want in zip(tj.jit(names["f"])(traced, 2.5), names["f"](plain, 2.5), strict=True):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(traced, plain)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "u8"])
@pytest.mark.parametrize(
    "form", ["max(n, -1000)", "max(-(2**40), n)", "max(n, -(2**70), 3)", "min(n, 2**64)", "min(2**70, n, 5)"]
)
def test_numbers_in_the_code_that_cannot_win_do_not_widen(form: str, dtype: str):
    function = eval(f"lambda n: {form}")
    for value in (0, 7, 100):
        n = np.dtype(dtype).type(value)
        found, expected = tj.jit(function)(n), function(n)
        assert found == expected
        if "3" not in form and "5" not in form:  # or it is one of Python's numbers that wins
            assert type(found) is type(expected)


@pytest.mark.parametrize(
    "form", ["np.array(x, 'f4', copy=False)", "np.asarray(x, 'i2', copy=False)", "np.array([x], copy=False)"]
)
def test_copies_that_are_forbidden(form: str):
    f = eval(f"lambda x: {form}")
    for g in (f, tj.jit(f)):
        with pytest.raises(ValueError, match="copy"):
            g(np.ones(3))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("reps", [1, (1, 1), 2, (1, 2)])
def test_tiles_lie_in_memory_as_numpys(order: str, reps: Any):
    def f(x: Any) -> Any:
        t = np.tile(x, reps)
        t.reshape(-1)[2:5] = -1
        t.T.ravel()[:3] = -2
        return t

    np.testing.assert_array_equal(tj.jit(f)(ORDERS[order]()), f(ORDERS[order]()))
