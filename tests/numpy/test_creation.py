"""Constants, ranges, grids and triangles, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, TracerError, WriteError


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {"np": np})


@pytest.mark.parametrize(
    "expression",
    [
        "xp.zeros((2, 3))", "xp.zeros(3, np.int32)", "xp.ones((2, 0))", "xp.ones(())", "xp.full((2, 2), 7)",
        "xp.full(3, 2.5, dtype=np.float32)", "xp.full((2, 3), [1, 2, 3])", "xp.full(2, True)",
        "xp.full((2,), np.float32(3))", "xp.eye(3)", "xp.eye(3, 4, 1)", "xp.eye(4, 3, -2, np.int8)",
        "xp.eye(2, dtype=bool)", "xp.identity(3)", "xp.identity(2, np.float32)", "xp.tri(3)", "xp.tri(3, 5, 1)",
        "xp.tri(4, 2, -1, np.int16)", "xp.arange(5)", "xp.arange(2, 9)", "xp.arange(2, 9, 3)", "xp.arange(9, 2, -2)",
        "xp.arange(0)", "xp.arange(5, 2)", "xp.arange(3.0)", "xp.arange(0.5, 3)", "xp.arange(0, 1, 0.1)",
        "xp.arange(5, dtype=np.float32)", "xp.arange(1, 6, dtype=np.int8)", "xp.arange(0, 2, 0.3, dtype=np.float16)",
        "xp.arange(2, dtype=bool)", "xp.arange(1)", "xp.arange(3, 4)", "xp.arange(7, dtype=np.uint16)",
        "xp.linspace(0, 1)", "xp.linspace(0, 1, 7)", "xp.linspace(-3, 5, 11, endpoint=False)", "xp.linspace(2, 2, 3)",
        "xp.linspace(0, 1, 1)", "xp.linspace(0, 1, 0)", "xp.linspace(0, 10, 5, dtype=int)",
        "xp.linspace(0, 1, 5, retstep=True)",
        "xp.linspace(0, 1, 1, retstep=True)[0]", "xp.linspace(0, -9, 4, dtype=int)",
        "xp.linspace(np.float32(0), np.float32(1), 5)", "xp.linspace([0, 1], [2, 5], 4)",
        "xp.linspace([0, 1], 3, 4, axis=1)", "xp.indices((2, 3))", "xp.indices((2, 3), sparse=True)",
        "xp.indices((3,), dtype=np.float32)", "xp.empty((2, 0))", "xp.array([[1, 2], [3, 4]])", "xp.array(3.5)",
        "xp.asarray([1, 2], dtype=np.float32)", "xp.array([1.0, 2], ndmin=3)", "xp.meshgrid([1, 2, 3], [4.0, 5.0])",
        "xp.diag([1, 2, 3])",
    ],
)  # fmt: skip
def test_arrays_from_nothing(expression: str):
    want = eval(expression, {"xp": np, "np": np})
    eager = eval(expression, {"xp": tj.numpy, "np": np})
    traced = tj.jit(lambda: eval(expression, {"xp": tj.numpy, "np": np}))()
    for got in (eager, traced):
        for g, w in zip(
            got if isinstance(want, tuple) else [got], want if isinstance(want, tuple) else [want], strict=True
        ):
            np.testing.assert_array_equal(g, w)
            assert np.asarray(g).dtype == np.asarray(w).dtype
            assert np.shape(g) == np.shape(w)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.logspace(0, 3, 4)", "xp.logspace(1, 2, 5, base=2.0)", "xp.logspace(0, 2, 3, endpoint=False)",
        "xp.geomspace(1, 1000, 4)", "xp.geomspace(-1, -8, 4)", "xp.geomspace(1, 256, 9, dtype=np.float32)",
        "xp.geomspace([1, 2], [8, 32], 3)",
    ],
)  # fmt: skip
def test_geometric_ranges(expression: str):
    want = eval(expression, {"xp": np, "np": np})
    for got in (
        eval(expression, {"xp": tj.numpy, "np": np}),
        tj.jit(lambda: eval(expression, {"xp": tj.numpy, "np": np}))(),
    ):
        np.testing.assert_allclose(got, want, rtol=1e-13 if want.dtype == np.float64 else 1e-6)
        assert got.dtype == want.dtype


def test_eager_constants_are_arrays_that_never_change():
    for x in (tj.numpy.zeros(3), tj.numpy.arange(3)):
        assert isinstance(x, tj.Array)
        with pytest.raises(WriteError, match="never changes"):
            x[0] = 1  # type: ignore[index]
        np.testing.assert_array_equal(x.at[0].set(5), [5, *np.asarray(x)[1:]])


def test_traced_constants_can_be_written():
    def f(x: Any) -> Any:
        y = tj.numpy.zeros((2, 3))
        y[1] = x
        z = np.zeros_like(x)
        z[0] = 4.0
        return y, z

    y, z = tj.jit(f)(np.arange(3.0))
    np.testing.assert_array_equal(y, [[0, 0, 0], [0, 1, 2]])
    np.testing.assert_array_equal(z, [4, 0, 0])


FROM_ARRAYS = [
    "xp.zeros_like(x)", "xp.ones_like(x, dtype=np.int8)", "xp.full_like(x, 3)",
    "xp.full_like(x, 2.7, dtype=np.float16)", "xp.zeros_like(x, shape=(2, 2))", "xp.full_like(x, x[0])", "xp.tril(x)",
    "xp.triu(x)", "xp.tril(x, 1)", "xp.triu(x, -1)", "xp.tril(x, -5)", "xp.triu(x, 9)", "xp.tril(x[0])",
    "xp.triu(xp.stack([x, x]), 1)", "xp.diag(x)", "xp.diag(x, 1)", "xp.diag(x, -2)", "xp.diag(x, 7)", "xp.diag(x[0])",
    "xp.diag(x[0], 2)", "xp.diag(x[0], -1)", "xp.diagflat(x)", "xp.diagflat(x, 1)", "x.astype(np.float32)",
    "x.astype(int)", "x.astype(bool)", "x.astype(x.dtype)", "xp.astype(x, np.int16)", "xp.meshgrid(x[0], x[:, 0])",
    "xp.meshgrid(x[0], x[:, 0], indexing='ij')", "xp.meshgrid(x[0], x[:, 0], x[0, :2], sparse=True)",
    "xp.meshgrid(x[0])", "xp.meshgrid(x[0], x[0], x[:, 1])", "xp.linspace(x[0], x[1], 5)",
    "xp.linspace(0, x[0], 4, axis=-1)", "xp.linspace(x[0, 0], 1, 6, endpoint=False)",
]  # fmt: skip


@pytest.mark.parametrize("expression", FROM_ARRAYS)
def test_arrays_from_arrays(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((3, 4)))


def test_arrays_from_arrays_of_integers(agree_together: Any, numbers: Any):
    # Where one of several steps is zero NumPy divides last in all of them: the last bit of linspace differs.
    agree_together([written(e, "x") for e in FROM_ARRAYS], numbers((3, 4), np.int16), rtol=1e-15)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.vander(x)", "xp.vander(x, 3)", "xp.vander(x, 4, increasing=True)", "xp.vander(x, 0)", "xp.vander(x, 1)",
    ],
)  # fmt: skip
def test_vander(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers(5), rtol=1e-14)
    agree(written(expression, "x"), numbers(5, np.int32))


@pytest.mark.parametrize(
    "expression",
    [
        "xp.zeros_like(x)", "xp.tril(x)", "xp.diag(x)", "xp.diag(x[0])", "xp.diag(x[0], -1)",
        "xp.linspace(x[0], x[1], 5)", "xp.meshgrid(x[0], x[1])", "x.astype(np.float32)", "xp.diagflat(x)",
    ],
)  # fmt: skip
def test_arrays_from_arrays_need_no_extents(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((4, 4)), symbolic=True)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.zeros(x.shape)", "xp.ones((2, *x.shape[1:]))", "xp.eye(x.shape[0])", "xp.eye(x.shape[0], x.shape[1], 1)",
        "xp.arange(x.shape[0])", "xp.arange(x.size)", "xp.arange(1, x.shape[0])", "xp.arange(0, x.shape[0], 2)",
        "xp.indices(x.shape)", "xp.tri(x.shape[0])", "xp.linspace(0, 1, x.shape[0])", "xp.full(x.shape, x[0, 0])",
        "xp.arange(x.shape[0] - 1)", "xp.arange(x.shape[0], 0, -1)", "xp.identity(x.shape[1])",
        "xp.sum(x) / x.shape[0]", "x * x.size", "x.shape[1] - x", "xp.add(x, x.shape[0])",
        "xp.stack([x[0, 0], x.shape[0]])", "xp.arange(x.shape[0]) / x.shape[0]",
    ],
)  # fmt: skip
def test_extents_of_arguments_stay_symbolic(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((5, 3)), symbolic=True, protocols=False, rtol=1e-14)


@pytest.mark.parametrize(
    "expression",
    [
        "x * (1 / x.shape[0])", "x * (0.5 * x.shape[0])", "x / np.sqrt(x.shape[0])", "x * 2.0 ** x.shape[1]",
        "x + round(x.shape[0] / 2)", "x * x.shape[0] ** 0.5", "x + np.float64(x.shape[0])", "x + -(-x.shape[0] // 2)",
        "x + divmod(x.shape[0], 2)[1]",
    ],
)  # fmt: skip
def test_python_arithmetic_with_extents(agree: Any, numbers: Any, expression: str):
    agree(written(expression, "x"), numbers((5, 3)), rtol=1e-15)


def test_protocols_take_like():
    def f(x: Any) -> Any:
        return (
            np.zeros((2, 2), like=x) + x[0],
            np.asarray(x, like=x),
            np.arange(3, like=x) * x,
            np.array([1.0, 2, 3], like=x) + x,
            np.eye(3, like=x),
            np.full(3, x[1], like=x),
        )

    x = np.arange(3.0)
    for got, want in zip(tj.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)


def test_nested_lists_of_traced_values_become_arrays(agree: Any):
    agree(lambda xp, x: xp.array([[x[0], 1.0], [x[1] * 2, x[2]]]), np.arange(3.0), protocols=False)


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ("np.zeros((2, -1))", ShapeError, "negative"), ("np.zeros(2.5)", TracerError, "made of integers"),
        ("np.full((2, 3), x)", ShapeError, "broadcast"),
        ("np.diag(np.stack([np.stack([x, x])]))", ShapeError, "rank 1 or 2"),
        ("np.tril(x[0])", ShapeError, "at least 1 axis"),
        ("x.astype(np.clongdouble)", DtypeError, "complex256 is not supported"),
        ("np.astype(x, str)", DtypeError, "not supported"), ("np.linspace(0, x, -1)", ShapeError, "number of values"),
        ("np.vander(np.stack([x, x]))", ShapeError, "rank 1"), ("np.arange(x[0])", TracerError, "must be known"),
        ("np.meshgrid(x, x, indexing='a')", ShapeError, "'xy' or 'ij'"), ("np.arange(0, 5, 0)", Exception, "zero|0"),
    ],
)  # fmt: skip
def test_errors_name_the_fault(expression: str, error: Any, message: str):
    f = eval(f"lambda np, x: {expression}")
    names = type(
        "names",
        (),
        {
            name: staticmethod(getattr(tj.numpy, name))
            for name in tj.numpy.__dict__
            if callable(getattr(tj.numpy, name)) and not name.startswith("_")
        },
    )
    names.clongdouble = np.clongdouble  # type: ignore[attr-defined]
    with pytest.raises(error, match=message):
        tj.jit(lambda x: f(names, x))(np.arange(4.0))


@pytest.mark.parametrize("number", [2**63, 2**64 - 1, 2**63 - 1, -(2**63)])
def test_full_of_a_number_has_the_dtype_that_holds_it(number: int):
    def function(x: Any) -> Any:
        return np.full(3, number), x + np.full(3, number)

    x = np.array([0, 1, 2], np.uint64)
    for found, expected in zip(tj.jit(function)(x), function(x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**62, 0, 4), 2**63])
def test_arrays_that_are_too_big_are_errors(shape: Any):
    with pytest.raises(ValueError, match=r"too big|allowed"):
        np.ones(shape)
    with pytest.raises(ValueError, match="is too big"):
        tj.jit(lambda x: np.ones(shape).sum() + x)(1.0)


@pytest.mark.parametrize("options", [{}, {"axis": -1}, {"endpoint": False}])
@pytest.mark.parametrize("n", [5, 7, 50])
def test_linspace_of_arrays_one_of_which_stays_the_same(n: int, options: dict[str, Any]):
    a = np.random.default_rng(1).normal(size=(3, 4))
    for b in (a + np.eye(3, 4) * 3, a + 0.1, a):
        got, want = tj.jit(lambda a, b: np.linspace(a, b, n, **options))(a, b), np.linspace(a, b, n, **options)
        assert got.tobytes() == want.tobytes()


def test_the_imaginary_part_of_real_arrays_cannot_be_written():
    def f(x: Any) -> Any:
        y = np.imag(x)
        y[0] = 1
        return y

    for function in (f, tj.jit(f)):
        with pytest.raises(ValueError, match=r"read-only|np\.imag is a view for reading"):
            function(np.arange(3.0))


@pytest.mark.parametrize("count", [0, 1])
def test_the_step_of_too_few_numbers_is_one_nan(count: int):
    f = lambda a: np.linspace(a, a + 1j, count, retstep=True)  # noqa: E731
    (got, step), (want, other) = tj.jit(f)(np.ones((2, 2))), f(np.ones((2, 2)))
    np.testing.assert_array_equal(got, want)
    assert np.isnan(step)
    assert type(step) is type(other)
