"""`x[mask]` with masks that depend on data: what NumPy does with the elements, without knowing how many there are."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import IndexOutOfBounds, ShapeError, TracejitError, UnsupportedError


def scaled(x: Any, y: Any, a: Any) -> Any:
    m = x > 0
    x[m] = x[m] * 2
    x[~m] += 5
    return x


def told_twice(x: Any, y: Any, a: Any) -> Any:
    x[x > 0] = 2 * x[x > 0] + y[x > 0]
    x[np.abs(x) > 1] -= np.sign(x[np.abs(x) > 1])
    return x


def of_another_array(x: Any, y: Any, a: Any) -> Any:
    m = (x > -0.5) & (y < 1)
    x[m] -= y[m] ** 2
    y[m] = x[m] / (1 + y[m] * y[m])
    return x, y


def chained(x: Any, y: Any, a: Any) -> Any:
    x[x < 0] = 0
    x[x > 1] = 1
    x[(x > 0) & (x < 1)] *= 0.5
    return x


def with_functions(x: Any, y: Any, a: Any) -> Any:
    m = x > 0.1
    x[m] = np.sqrt(np.log1p(x[m])) / x[m]
    x[~m] = np.where(y[~m] > 0, np.clip(x[~m], -0.5, 0.5), np.exp(x[~m])).round(3)
    return x


def copied_and_written(x: Any, y: Any, a: Any) -> Any:
    m = x > 0
    t = x[m]
    same = t
    t += 1
    t[t > 1.5] = 1.5
    t[:] = t * 2
    y[m] = same
    x[m] *= 3
    return x, y


def leading_axes(x: Any, y: Any, a: Any) -> Any:
    m = x > 0
    a[m] *= 2
    a[m, 0] += 1
    a[m, 1:] -= a[m, :2]
    a[m] += np.arange(3.0)
    a[m] /= 1 + x[m][:, None] ** 2
    return a


def last_axis(x: Any, y: Any, a: Any) -> Any:
    b = a.T.copy()
    b[:, x > 0] *= 2
    b[1, x > 0] = 7
    b[:, y > 0] += y[y > 0]
    b[b > 3] = -b[b > 3]
    return b


def whole_matrix(x: Any, y: Any, a: Any) -> Any:
    a[a < 0] **= 2
    a[a > x[:, None]] -= 1
    a[a[:, 0] > 0] = np.array([1.0, 2.0, 3.0])
    return a


def through_views(x: Any, y: Any, a: Any) -> Any:
    x[1:][x[1:] > x[:-1]] += 10
    a[0][a[0] > 0] = 5
    a.T[1][x > 0] -= x[x > 0]
    return x, a


def of_dtypes(x: Any, y: Any, a: Any) -> Any:
    k = (10 * x).astype(np.int32)
    k[k > 0] //= 3
    k[k < 0] = k[k < 0] * 2.75
    k[x > 1] = y[x > 1]
    b = x > 0
    b[y > 0] = ~b[y > 0]
    f = x.astype(np.float32)
    f[f > 0] *= np.float64(1.1)
    return k, b, f, f[f > 0].sum()


def summed(x: Any, y: Any, a: Any) -> Any:
    m = x > 0
    return (
        x[m].sum(), np.sum(x[m] * y[m]), x[m].mean(), x[m].std(), np.var(x[m], ddof=1), np.prod(x[m]),
        (x[m] > 0.5).any(), np.all(y[m] < 5), a[m].sum(), a[m].sum(axis=0), a[m].sum(axis=1).mean(),
        a[m].max(axis=1).sum(), a[a > 0].mean(), x[m].max(initial=0.0),
    )  # fmt: skip


def in_a_loop(x: Any, y: Any, a: Any) -> Any:
    for i in tj.range(4):
        m = x > 0.3 * i
        x[m] -= 0.25 * y[m]
        y[y < 0] *= -0.5
    return x, y


def mask_of_outside(x: Any, y: Any, a: Any) -> Any:
    m = x > 0
    t = y[m] + 1
    for _ in tj.range(3):
        x[m] += t
        t *= 2
    return x


def rank_0(x: Any, y: Any, a: Any) -> Any:
    x[x.sum() > 0] = 1
    y[y.sum() > 0] += 2
    return x, y


def spread(x: Any, y: Any, a: Any) -> Any:
    s = x.sum()
    x[x > 0] *= s
    y[y > 0] = s / y[y > 0] + np.array([1.0])
    a[x > 0] = a[x > 0] + y[:1]
    return x, y, a


PROGRAMS = [
    scaled, told_twice, of_another_array, chained, with_functions, copied_and_written, leading_axes, last_axis,
    whole_matrix, through_views, of_dtypes, summed, in_a_loop, mask_of_outside, rank_0, spread,
]  # fmt: skip


def arguments(n: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, 3))]


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            same(f, e)
        return
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6 if found.dtype == np.float32 else 1e-12, atol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_with_masks_do_what_numpys_do(program: Callable[..., Any]):
    compiled = tj.jit(program)
    for n, seed in ((7, 0), (7, 1), (12, 2), (30, 3), (3, 4)):
        ours, theirs = arguments(n, seed), arguments(n, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # statistics of no elements, and of one
            expected = program(*theirs)
        same(compiled(*ours), expected)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in (in_a_loop, mask_of_outside)])
def test_programs_with_masks_are_mapped(program: Callable[..., Any]):
    def copying(*arrays: Any) -> Any:
        return program(*[x.copy() for x in arrays])

    rows = [np.stack(column) for column in zip(*[arguments(5, seed) for seed in range(4)], strict=True)]
    each = [program(*arguments(5, seed)) for seed in range(4)]
    expected = tuple(map(np.stack, zip(*each, strict=True))) if isinstance(each[0], tuple) else np.stack(each)
    for transformed in (tj.vmap(copying), tj.jit(tj.vmap(copying)), tj.vmap(tj.jit(copying))):
        same(transformed(*rows), expected)


ROUGH = (chained, copied_and_written, whole_matrix, of_dtypes, summed, rank_0)


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in ROUGH])
def test_programs_with_masks_are_differentiated(program: Callable[..., Any]):
    def loss(x: Any, y: Any, a: Any) -> Any:
        found = program(x.copy(), y.copy(), a.copy())
        return sum(np.sum(np.sin(f)) for f in (found if isinstance(found, tuple) else (found,)))

    given = arguments(6, 11)
    steps = 1e-6 * np.eye(6)
    gradients = [
        g(*given)
        for g in (tj.grad(loss, (0, 1, 2)), tj.jit(tj.grad(loss, (0, 1, 2))), tj.grad(tj.jit(loss), (0, 1, 2)))
    ]
    for number in (0, 1):

        def moved(step: Any) -> Any:
            return loss(*[x + step if k == number else x for k, x in enumerate(given)])  # noqa: B023

        numeric = [(moved(e) - moved(-e)) / 2e-6 for e in steps]
        for gradient in gradients:
            np.testing.assert_allclose(gradient[number], numeric, rtol=1e-5, atol=1e-6)


def test_no_derivative_is_lost_in_what_is_not_selected():
    """Where the mask does not hold, functions may be infinite or undefined; they are not computed there by NumPy."""

    def loss(x: Any, scale: Any) -> Any:
        y = np.zeros_like(x)
        m = x > 0
        y[m] = scale * np.log(x[m]) / np.sqrt(x[m]) + np.log(x[m] - 0.5 * scale)
        return y.sum()

    x = np.array([-1.0, 0.0, 2.0, 3.0])
    dx, ds = tj.jit(tj.grad(loss, (0, 1)))(x, 1.5)
    z = x[2:]
    at = [0, 0, *(1.5 * (1 - 0.5 * np.log(z)) / z**1.5 + 1 / (z - 0.75))]
    np.testing.assert_allclose(dx, at)
    np.testing.assert_allclose(ds, np.sum(np.log(z) / np.sqrt(z) - 0.5 / (z - 0.75)))


def test_fori_and_while_loops_change_selected_elements():
    def relax(x: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            x = x.copy()
            x[x > 1] -= 0.5
            return x

        x = tj.lax.fori_loop(0, 5, body, x)
        return tj.lax.while_loop(lambda x: x.max() > 0.5, lambda x: body(0, x * 0.9), x)

    def plain(x: Any) -> Any:
        x = x.copy()
        for _ in range(5):
            x[x > 1] -= 0.5
        while x.max() > 0.5:
            x = x * 0.9
            x[x > 1] -= 0.5
        return x

    x = np.linspace(-1, 4, 9)
    np.testing.assert_allclose(tj.jit(relax)(x), plain(x))


def test_a_mask_that_has_changed_is_another_mask():
    def stale(x: Any) -> Any:
        m = x > 0
        t = x[m]
        m[0] = False
        x[m] = t
        return x

    def stale_in_loop(x: Any) -> Any:
        m = x > 0
        t = x[m] + 1
        for _ in tj.range(3):
            x[m] = t
            m[0] = False
        return x

    for function in (stale, stale_in_loop):
        for f in (function, tj.jit(function)):
            with pytest.raises(ValueError, match=r"cannot|different lengths"):
                f(np.array([1.0, -1.0, 2.0]))


X = np.array([1.0, -2.0, 3.0])
M = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, a: x[x > 0],
        lambda x, a: len(x[x > 0]),
        lambda x, a: x[x > 0].size,
        lambda x, a: x[x > 0].shape[0],
        lambda x, a: x[x > 0].cumsum(),
        lambda x, a: x[x > 0].max(),
        lambda x, a: x[x > 0] @ x[x > 0],
        lambda x, a: np.add.reduce(x[x > 0]),
        lambda x, a: np.concatenate([x[x > 0], x]),
        lambda x, a: np.array(x[x > 0]),
        lambda x, a: x[x > 0][0],
        lambda x, a: x[x > 0] + x[x < 3],
        lambda x, a: x[x > 0] + a[x > 0],
    ],
)
def test_what_needs_the_number_of_elements_has_it(function: Any):
    got, want = tj.jit(function)(X.copy(), M.copy()), function(X.copy(), M.copy())
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize(
    ("function", "kind", "part"),
    [
        (lambda x, a: [v for v in x[x > 0]], UnsupportedError, "is known when the program runs, and decides what is"),
        (lambda x, a: x[x > 0] + x, ShapeError, "arrays of different lengths"),
        (lambda x, a: x.__setitem__(x > 0, x), ShapeError, "arrays of different lengths"),
        (lambda x, a: x.__setitem__(x > 0, x[x < 0]), ShapeError, "one element by chance is not spread"),
        (lambda x, a: a.__setitem__(x > 0, np.zeros(3)), ShapeError, "cannot be broadcast"),
        (lambda x, a: x[np.zeros(2) + x[0] > 0], IndexOutOfBounds, "a mask of shape (2,) does not fit axes of (3,)"),
        (lambda x, a: a[x > 0, [0, 1, 0]], UnsupportedError, "of other masks, arrays or None"),
        (lambda x, a: {x[x > 0]: 1}, TracejitError, "unhashable"),
    ],
)  # fmt: skip
def test_what_a_selection_cannot_do_is_refused(function: Any, kind: Any, part: str):
    with pytest.raises(kind) as error:
        tj.jit(function)(X.copy(), M.copy())
    assert part in str(error.value)
    assert "at test_masked.py:" in str(error.value)
    assert "x[" in str(error.value).splitlines()[2] or "x > 0" in str(error.value).splitlines()[2]


def test_outside_of_a_program_a_selection_has_no_shape():
    def late(x: Any) -> Any:
        chosen = x[x > 0]
        return np.cumsum(chosen)

    with pytest.raises(UnsupportedError, match=r"the shape of x\[mask\] depends on data, so np.cumsum is not") as error:
        tj.vmap(late)(X.reshape(1, 3))
    first = late.__code__.co_firstlineno
    assert str(error.value).splitlines()[1:] == [
        f"  at test_masked.py:{first + 2}:16 in late",
        "      return np.cumsum(chosen)",
        "             ^^^^^^^^^^^^^^^^^",
        f"  x[mask] was taken at test_masked.py:{first + 1}",
    ]


def test_in_place_changes_of_a_selection_keep_its_dtype():
    def halved(x: Any) -> Any:
        x[x > 0] += 0.5
        return x

    with pytest.raises(TracejitError, match="cannot change an array of int64 in place by one of float64"):
        tj.jit(halved)(np.arange(3))
    with pytest.raises(TypeError):
        halved(np.arange(3))


@pytest.mark.parametrize("name", ["putmask", "place"])
@pytest.mark.parametrize(
    "value", [5, 2.5, True, np.float32(2.5), np.array([3]), [7], np.array([2, 3]), [1, 2, 3, 4, 5], np.array([2.5])]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_putmask_and_place(name: str, value: Any, dtype: Any):
    put = getattr(np, name)

    def write(x: Any, y: Any) -> Any:
        put(x, x > y[:, None], value)
        return x

    ours, theirs, y = (
        np.arange(6).reshape(3, 2).astype(dtype),
        np.arange(6).reshape(3, 2).astype(dtype),
        np.array([2, 1, 9]),
    )
    try:
        expected = write(theirs, y)
    except TypeError:
        with pytest.raises((TypeError, UnsupportedError)):
            tj.jit(write)(ours, y)
        return
    np.testing.assert_array_equal(tj.jit(write)(ours, y), expected)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "form",
    [
        "divmod(7.0, x[m])", "divmod(x[m], 2.0)", "divmod(x[m], x[m] + 1)", "divmod(np.float32(7), x[m])",
        "divmod(y, x[m])", "np.divmod(7.0, x[m])", "(7.0 // x[m], 7.0 % x[m])",
    ],
)  # fmt: skip
def test_quotient_and_remainder_of_selected_elements_on_either_side(form: str):
    f = eval(f"lambda x, y, m: [part.sum() for part in {form}]", {"np": np})
    x, y = np.array([1.5, -2.0, 3.0, -0.7]), np.float64(5.25)
    np.testing.assert_allclose(tj.jit(lambda x, y: f(x, y, x > 0))(x, y), f(x, y, x > 0))
    np.testing.assert_allclose(tj.jit(lambda x, y: f(x, y, x < 2))(x, y), f(x, y, x < 2))


def test_changed_copies_of_selected_elements():
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_array_equal(tj.jit(lambda x: x.at[x > 0].set(x[x > 0] * 2))(x), [2, -2, 6])


def test_variances_with_where():
    x, m = np.random.default_rng(0).normal(size=(5, 4)), np.random.default_rng(1).random((5, 4)) > 0.2
    for kwargs in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": 1, "ddof": 1}):
        for name in ("var", "std"):
            function = partial(getattr(np, name), **kwargs)
            np.testing.assert_allclose(tj.jit(lambda x, m, f=function: f(x, where=m))(x, m), function(x, where=m))


MASKS = [
    "np.arange(a.shape[0]) % 3 == 1", "np.arange(len(a)) > 2", "np.arange(a.size) // 3 == 1",
    "np.abs(np.arange(a.size) - 4) < 3", "np.linspace(0, 1, a.size) > 0.5", "np.cumsum(np.ones(a.size)) > 3",
    "np.arange(a.size) ** 2 < 50",
]  # fmt: skip


@pytest.mark.parametrize("form", ["a[{}]", "a[{}] * 2", "np.concatenate([a[{}], a])"])
@pytest.mark.parametrize("mask", MASKS)
def test_masks_that_follow_from_extents_are_known_at_every_size(form: str, mask: str):
    f = eval(f"lambda a: {form.replace('{}', mask)}")
    jitted = tj.jit(f)
    for n in (20, 40, 7, 20, 1, 0):
        a = np.arange(float(n))
        np.testing.assert_array_equal(jitted(a), f(a))


OUTSIDE = {"np": np, "tj": tj, "K": np.arange(7), "M": np.array([True, False, True, True, False, False, True])}
OF_OUTSIDE = [
    "a[M]", "a[np.isin(K, [1, 3])]", "a[np.isin(np.arange(a.shape[0]), [1, 3])]", "a[(K == 1) | (K == 3)]", "a[M] * 2",
    "a[M][:1]", "np.concatenate([a[M], a[~M]])", "a[M] @ a[M].T", "a[np.digitize(K, [2, 4]) == 1]", "len(a[M]) + a",
    "a[M].shape[0] * a", "a[M].sum(0)", "a[np.searchsorted([2, 4], K) == 1].mean()", "np.stack([r[M] for r in a.T])",
]  # fmt: skip


@pytest.mark.parametrize("form", OF_OUTSIDE)
def test_a_mask_that_follows_from_arrays_outside_is_taken_by_its_value_and_followed(form: str):
    names = {**OUTSIDE, "K": OUTSIDE["K"].copy(), "M": OUTSIDE["M"].copy()}
    f = eval(f"lambda a: {form}", names)
    jitted = tj.jit(f)
    for n in (2, 3, 2, 4, 5):
        if n > 3:
            names["M"][:] = ~names["M"]
            names["K"][0] = n
        a = np.arange(7.0 * n).reshape(7, n)
        np.testing.assert_allclose(jitted(a), f(a), rtol=1e-14)


def test_transformed_functions_take_masks_from_outside():
    mask, a = OUTSIDE["M"], np.arange(14.0).reshape(7, 2)
    np.testing.assert_array_equal(tj.jit(lambda a: tj.vmap(lambda r: r[mask])(a.T))(a), a.T[:, mask])
    want = np.where(mask[:, None], 2 * a, 0)
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda b: (b[mask] ** 2).sum()))(a), want)
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda b: (b[mask].T @ b[mask]).trace()))(a), want)


LOCAL = OUTSIDE["M"][:4]


def changed_in_a_loop(a):
    mask, total = LOCAL.copy(), np.zeros(1)
    for i in tj.range(3):
        total += a[mask].sum()
        mask[i] = ~mask[i]
    return total


def changed_before(a):
    mask = LOCAL.copy()
    mask[1] = True
    return a[mask]


def changed_between(a):
    mask = LOCAL.copy()
    first = a[mask]
    mask[0] = False
    return first, a[mask]


def taken_and_put_back(a):
    part = a[LOCAL]
    part *= 2
    a[LOCAL] = part
    return part


def turned_in_a_loop(a):
    mask = LOCAL.copy()
    for _ in tj.range(3):
        mask[...] = ~mask
    return a[mask]


def taken_in_a_branch(a):
    mask = LOCAL.copy()
    return tj.lax.cond(a[0] > 0, lambda: a[mask], lambda: a[mask] * 2)


@pytest.mark.parametrize(
    "f", [changed_in_a_loop, changed_before, changed_between, taken_and_put_back, turned_in_a_loop, taken_in_a_branch]
)
def test_masks_that_the_function_changes_are_right_or_refused(f: Callable[..., Any]):
    jitted = tj.jit(f)
    for scale in (1.0, -1.0, 2.0):
        x, y = np.arange(1.0, 5.0) * scale, np.arange(1.0, 5.0) * scale
        got, want = jitted(x), f(y)
        for g, w in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, want)), strict=True):
            np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(x, y)


def test_a_mask_that_an_argument_decides_selects_in_the_program():
    def f(a, flag):
        return a[LOCAL & flag]

    jitted = tj.jit(f)
    for flag in (np.ones(4, bool), np.arange(4) > 1):
        np.testing.assert_array_equal(jitted(np.arange(4.0), flag), f(np.arange(4.0), flag))


def test_products_of_what_a_mask_selects():
    """They are no elementwise functions, though ufuncs."""
    A = np.arange(70.0).reshape(10, 7) - 20
    functions = [
        lambda a, c: np.matvec(a[:1], a[a[:, 0] > c]),
        lambda a, c: np.matvec(a[:3], a[a[:, 0] > c]),
        lambda a, c: np.vecmat(a[a[:, 0] > c], a[:7]),
        lambda a, c: np.vecdot(a[a[:, 0] > c], a[:1]),
        lambda a, c: np.matmul(a[a[:, 0] > c], a[0]),
    ]
    for f in functions:
        jitted = tj.jit(f)
        for c in (20.0, 900.0, -100.0, 42.0):
            want = f(A, c)
            got = jitted(A, c)
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("name", ["bitwise_or", "bitwise_xor", "bitwise_and", "logical_xor", "gcd", "hypot"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_folds_of_nothing_have_their_identity(name: str, dtype: type):
    ufunc = getattr(np, name)
    if name in ("gcd", "hypot"):  # not of bool
        dtype = np.int64 if name == "gcd" else np.float64
    f = tj.jit(lambda x: ufunc.reduce(x[x > 5]))
    for n in (9, 5, 7, 0, 1):
        x = np.arange(n).astype(dtype)
        got, want = f(x), ufunc.reduce(x[x > 5])
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-15)


def test_a_check_of_no_numbers_does_not_fail():
    f = tj.jit(lambda a, b: np.power.outer(a[a > 1], b[b > 2]))
    for a, b in (([1, 2, 3], [1, 3, 4]), ([2, 2, 5, 1], [1, 2, 5]), ([2, 3], [1, 1]), ([0], [3, 3]), ([0], [0])):
        want = np.power.outer(*(v[v > k] for v, k in ((np.array(a), 1), (np.array(b), 2))))
        np.testing.assert_array_equal(f(np.array(a), np.array(b)), want)


def test_branches_of_different_structures_beside_a_mask():
    def f(x):
        if x[-1] > 1:
            return x
        return x, x[x > 1]

    def g(x):
        if x[-1] > 1:
            return 1.5
        return x[x > 1]

    for h in (f, g):
        with pytest.raises(TypeError, match="branch") as error:
            tj.jit(h)(np.array([1.0, 2, 3]))
        assert isinstance(error.value, TracejitError)
