"""tj.Array: immutable, over NumPy memory, with NumPy's operators and protocols; results follow inputs."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, WriteError

X = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def a() -> tj.Array:
    return tj.Array(X)


def test_has_what_an_array_has(a: tj.Array):
    assert (a.shape, a.dtype, a.ndim, a.size, a.itemsize, a.nbytes) == ((3, 4), np.float64, 2, 12, 8, 96)
    assert a.device == "cpu"
    assert a.to_device("cpu") is a
    assert a.block_until_ready() is a
    assert len(a) == 3
    assert [row.tolist() for row in a] == X.tolist()
    assert 5.0 in a
    assert 50.0 not in a


@pytest.mark.parametrize(
    "value", [3, 2.5, True, [1, 2], [[1.5], [2]], np.float32(4), np.arange(3, dtype=">i4"), np.ones((2, 0))]
)
def test_takes_what_numpy_takes(value: Any):
    made = tj.Array(value)
    want = np.array(value)
    assert made.dtype == want.dtype.newbyteorder("=")
    np.testing.assert_array_equal(made, want)


def test_copies_what_it_is_given():
    x = np.zeros(3)
    a = tj.Array(x)
    x[0] = 1
    np.testing.assert_array_equal(a, [0, 0, 0])


@pytest.mark.parametrize(
    "value", [np.array(["a"]), np.array([1j], "G"), np.array([None]), np.array(["2020-01-01"], "M8[D]")]
)
def test_refuses_dtypes_without_kernels(value: Any):
    with pytest.raises(DtypeError, match="is not supported; supported are bool"):
        tj.Array(value)


def test_hands_its_memory_to_numpy_without_a_copy_and_read_only(a: tj.Array):
    x = np.asarray(a)
    assert np.shares_memory(x, np.asarray(a))
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    y = np.array(a)
    y[0] = 7
    assert a[0, 0] == 0
    assert np.asarray(a, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="needs a copy"):
        np.asarray(a, np.float32, copy=False)
    assert np.asarray(tj.Array(3.0)).shape == ()


def test_dlpack(a: tj.Array):
    assert a.__dlpack_device__() == X.__dlpack_device__()
    x = np.from_dlpack(a)
    np.testing.assert_array_equal(x, X)
    assert np.shares_memory(x, np.asarray(a))
    assert not x.flags.writeable


def test_array_namespace(a: tj.Array):
    xp = a.__array_namespace__()
    assert xp is tj.numpy
    assert isinstance(xp.sum(a), tj.Array)


@pytest.mark.parametrize(
    "expression",
    [
        "a + 1", "1 + a", "a - a", "2 - a", "a * 3.0", "a / 2", "1 / (a + 1)", "a // 2", "7 // (a + 1)", "a % 3",
        "a ** 2", "2 ** a", "-a", "+a", "abs(a)",
        "a @ a.T", "a == 3", "a != 3", "a < 3", "a <= 3", "a > 3", "a >= 3", "np.ones(4) + a", "a + np.ones(4)",
        "np.float32(2) * a", "np.sin(a)",
        "np.add(a, 1)", "np.add.reduce(a)", "np.concatenate([a, a])", "np.stack([a, a], axis=1)", "np.sum(a, axis=0)",
        "np.where(a > 3, a, 0)",
        "a.sum()", "a.mean(axis=1)", "a.T", "a.reshape(4, 3)", "a.astype('f4')", "a[0]", "a[1, 2]", "a[:, ::-1]",
        "a[a > 3]", "a[[0, 2]]", "a[..., None]", "a[np.array([1, 0]), 1]", "np.frexp(a)[0]", "np.linalg.norm(a)",
        "np.median(a)", "a.max(axis=0)", "a.cumsum()", "divmod(a, 3)[1]",
        "(a > 3) & (a < 7)", "~(a > 3)", "(a > 3) | (a == 0)", "a.copy()", "a.ravel()", "a.argmax()",
    ],
)  # fmt: skip
def test_operators_methods_and_numpy_functions_agree_with_numpy_and_give_arrays(a: tj.Array, expression: str):
    with np.errstate(all="ignore"):
        got, want = eval(expression, {"a": a, "np": np}), eval(expression, {"a": X, "np": np})
    assert isinstance(got, tj.Array), type(got)
    assert got.dtype == np.asarray(want).dtype
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-13)


def test_several_results(a: tj.Array):
    quotient, rest = divmod(a, 5)
    assert isinstance(quotient, tj.Array)
    assert isinstance(rest, tj.Array)
    parts = np.split(a, 2, axis=1)
    assert all(isinstance(part, tj.Array) for part in parts)


def test_results_share_no_memory_with_numpy_arguments():
    a, x = tj.Array([1.0, 2.0]), np.zeros(2)
    both = np.broadcast_arrays(a, x)
    x[:] = 5
    np.testing.assert_array_equal(both[1], [0, 0])
    y = np.ones((2, 2))
    z = tj.numpy.transpose(y)
    y[:] = 9
    np.testing.assert_array_equal(z, np.ones((2, 2)))


def test_numbers():
    a = tj.Array(3)
    assert (int(a), float(a), bool(a), complex(a), a.item()) == (3, 3.0, True, 3 + 0j, 3)
    assert [10, 11, 12, 13][a] == 13
    assert f"{tj.Array(2.5):.3f}" == "2.500"
    assert isinstance(a + 1, tj.Array)
    assert a.shape == ()
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tj.Array([1, 2]))
    with pytest.raises(TypeError):
        float(tj.Array([1.0, 2.0]))


def test_repr_and_str():
    assert repr(tj.Array([[1.0, 2.0], [3.0, 4.0]])) == "Array([[1., 2.],\n       [3., 4.]], dtype=float64)"
    assert repr(tj.Array(np.float32(1.5))) == "Array(1.5, dtype=float32)"
    assert repr(tj.Array([])) == "Array([], dtype=float64)"
    assert str(tj.Array([1, 2])) == "[1 2]"


def test_never_changes(a: tj.Array):
    with pytest.raises(WriteError) as error:
        a[0] = 1  # type: ignore[index]
    assert (
        error.value.message
        == "a tj.Array never changes; x = x.at[index].set(value) is a changed copy, np.array(x) one that can be written"
    )
    before = a
    a += 1
    assert a is not before
    np.testing.assert_array_equal(before, X)
    with pytest.raises(WriteError, match=r"out= is a tj.Array"):
        np.add(1, 2, out=before)
    out = np.empty((3, 4))
    assert np.add(before, 1, out=out) is not before
    np.testing.assert_array_equal(out, X + 1)
    with pytest.raises(AttributeError):
        before.shape = (12,)  # type: ignore[misc]


def test_at(a: tj.Array):
    def changed(function: Any) -> Any:
        x = X.copy()
        function(x)
        return x

    def setting(x: Any) -> None:
        x[1] = 9

    cases = {
        "set": (a.at[1].set(9), changed(setting)),
        "add": (a.at[0, 1:3].add(100), X + [[0, 100, 100, 0], [0] * 4, [0] * 4]),
        "repeated": (a.at[np.array([0, 0, 2])].add(1), X + [[2], [0], [1]]),
        "subtract": (a.at[:, 0].subtract(1), X - [1, 0, 0, 0]),
        "mask": (a.at[a > 5].multiply(0), np.where(X > 5, 0, X)),
        "min": (a.at[2].min(9), np.minimum(X, [[99] * 4, [99] * 4, [9] * 4])),
        "max": (a.at[..., 3].max(5), np.maximum(X, [-1, -1, -1, 5])),
        "divide": (a.at[1:].divide(2), X / [[1], [2], [2]]),
        "power": (a.at[0].power(2), np.vstack([X[0] ** 2, X[1:]])),
        "apply": (a.at[0].apply(np.sqrt), np.vstack([np.sqrt(X[0]), X[1:]])),
        "array index": (a.at[tj.Array([0, 1]), tj.Array(1)].set(-1), changed(lambda x: x.__setitem__(([0, 1], 1), -1))),
    }
    for name, (got, want) in cases.items():
        assert isinstance(got, tj.Array), name
        np.testing.assert_array_equal(got, want, err_msg=name)
    np.testing.assert_array_equal(a.at[2].get(), X[2])
    np.testing.assert_array_equal(a, X)
    np.testing.assert_array_equal(a.at[[0, 0]].multiply(2), X * [[4], [1], [1]])
    with pytest.raises(IndexError):
        a.at[3].set(0)


def test_at_under_jit_and_grad():
    @tj.jit
    def f(x: Any, i: Any) -> Any:
        return x.at[i].add(1.0).at[0].set(5)

    np.testing.assert_array_equal(f(np.zeros(4), 2), [5, 0, 1, 0])
    assert isinstance(f(tj.Array(np.zeros(4)), 2), tj.Array)
    slope = tj.grad(lambda x: (x.at[1].multiply(3.0) ** 2).sum())(np.array([1.0, 2.0]))
    np.testing.assert_allclose(slope, [2, 36])


def test_is_not_hashable_and_is_not_a_key(a: tj.Array):
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


@pytest.mark.parametrize("value", [X, np.float32(2), np.ones((0, 2)), X.T])
def test_pickles_and_copies(value: Any):
    a = tj.Array(value)
    for b in (pickle.loads(pickle.dumps(a)), copy.copy(a), copy.deepcopy(a)):
        assert isinstance(b, tj.Array)
        assert b.dtype == a.dtype
        np.testing.assert_array_equal(b, a)


# -- results follow inputs
# ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_jit_returns_arrays_where_an_argument_is_one(backend: str):
    @tj.jit(backend=backend)
    def f(x: Any, y: Any) -> Any:
        return {"sum": x + y, "pair": (x.sum(), "text", None)}

    a, x = tj.Array(X), X.copy()
    for _ in range(3):
        for first, second, kind in (
            (a, x, tj.Array),
            (x, a, tj.Array),
            (x, x, np.ndarray),
            (a, 2.0, tj.Array),
            (tj.Array(1.0), x, tj.Array),
        ):
            out = f(first, second)
            assert type(out["sum"]) is kind
            assert type(out["pair"][0]) is (tj.Array if kind is tj.Array else np.float64)
            assert out["pair"][1:] == ("text", None)
            np.testing.assert_allclose(np.asarray(out["sum"]), np.asarray(first) + np.asarray(second))


def test_jit_takes_arrays_in_containers_and_of_any_layout():
    @tj.jit
    def f(d: Any) -> Any:
        return d["x"] * 2 + d["y"][0]

    a = tj.Array(X)
    for _ in range(2):
        out = f({"x": a.T, "y": [tj.Array(1.0)]})
        assert isinstance(out, tj.Array)
        np.testing.assert_array_equal(out, X.T * 2 + 1)


def test_native_entries_take_arrays():
    @tj.jit
    def f(x: Any) -> Any:
        return x + 1

    a = tj.Array(X)
    f(a)
    missed: list[Any] = []
    f._state.function = lambda x: missed.append(x)  # type: ignore[attr-defined]
    f._state.versions.clear()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(f(a), X + 1)
    assert not missed


def test_captured_array_under_jit():
    a = tj.Array([1.0, 2.0])
    f = tj.jit(lambda x: x * a + a[1] + a.sum())
    np.testing.assert_allclose(f(np.ones(2)), [6.0, 7.0])


def test_transformations_take_arrays():
    a = tj.Array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(tj.grad(lambda x: (x * x).sum())(a), [2, 4, 6])
    np.testing.assert_allclose(tj.vmap(lambda x: x * 2)(a), [2, 4, 6])
    np.testing.assert_allclose(tj.jvp(lambda x: x**2, (a,), (a,))[1], [2, 8, 18])


def test_jit_refuses_to_change_an_array():
    @tj.jit
    def f(x: Any) -> None:
        x[0] = 1

    with pytest.raises(WriteError) as error:
        f(tj.Array([1.0]))
    assert error.value.message == (
        "f changes its argument 1 in place, which is a tj.Array and never changes; use x = x.at[i].set(v) and return "
        "x, or pass np.array(x)"
    )
    assert "x[0] = 1" in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda xp: xp.zeros(3),
        lambda xp: xp.arange(4),
        lambda xp: xp.linspace(0, 1, 5),
        lambda xp: xp.sin(np.ones(3)),
        lambda xp: xp.add([1, 2], 1),
    ],
)
def test_tracejit_numpy_returns_arrays(make: Any):
    got = make(tj.numpy)
    assert isinstance(got, tj.Array)
    np.testing.assert_allclose(got, make(np))


def test_an_array_is_made_of_an_array():
    x = tj.numpy.array([1, 2, 3])
    for made in (tj.numpy.array(x), tj.numpy.asarray(x), tj.numpy.array(x, np.float32), tj.numpy.array([x, x])):
        assert isinstance(made, tj.Array)
        np.testing.assert_array_equal(np.asarray(made)[..., :], np.asarray(x) if made.ndim == 1 else [[1, 2, 3]] * 2)
    assert tj.numpy.array(x, np.float32).dtype == np.float32


def test_donated_arrays_that_never_change_are_left_as_they_are():
    step = tj.jit(lambda x, y: (x + y, x * 2.0), donate_argnums=(0, 1))
    x, y = tj.numpy.ones(1000), np.full(1000, 2.0)
    total, double = step(x, y)
    assert np.asarray(x).tolist() == [1.0] * 1000
    assert np.asarray(total).tolist() == [3.0] * 1000
    assert np.asarray(double).tolist() == [2.0] * 1000


def less(x: Any) -> Any:
    y = x
    x -= 1
    return x, y


def less_in_a_loop(x: Any) -> Any:
    y = x
    for _ in range(3):
        x -= 1
        x *= 2
    return x, y


def less_until(x: Any) -> Any:
    n = 0
    while x[0] > 0:
        x -= 1.5
        n += 1
    return x, n


def less_or_more(x: Any) -> Any:
    y = x
    if x[0] > 3:
        x -= 1
    else:
        x += 1
    return x, y


def less_of_a_part(x: Any) -> Any:
    y = x[1:]
    y -= 1
    return x, y


@pytest.mark.parametrize("f", [less, less_in_a_loop, less_until, less_or_more, less_of_a_part])
def test_an_argument_that_never_changes_is_bound_anew_by_augmented_assignments(f: Any):
    for start in ([5.0, 6.0, 7.0], [2.0, 0.0, -1.0]):
        x = tj.Array(start)
        for got, want in zip(tj.jit(f)(x), f(x), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        assert np.asarray(x).tolist() == start


def test_an_argument_that_never_changes_takes_no_element():
    def put(x: Any) -> Any:
        x[0] = 1.0
        return x

    with pytest.raises(WriteError, match="never changes"):
        tj.jit(put)(tj.Array([1.0, 2.0]))
