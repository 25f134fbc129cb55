"""Choices, limits, roundings and comparisons, against NumPy."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError


def written(expression: str, *names: str) -> Any:
    return eval(f"lambda xp, {', '.join(names)}: {expression}", {"np": np})


@pytest.mark.parametrize(
    "expression",
    [
        "xp.where(x > 0, x, y)", "xp.where(x > 0, x, 0)", "xp.where(x, 1, 2)", "xp.where(x > 0, 1.5, y)",
        "xp.where(x[0] > 0, x, y)", "xp.clip(x, -1, 1)", "xp.clip(x, 0, None)", "xp.clip(x, None, 0)", "x.clip(0, 2)",
        "x.clip(max=1)", "xp.clip(x, y, y + 1)", "xp.clip(x, min=0)", "xp.clip(x, min=0, max=1)",
        "xp.select([x > 1, x > 0], [x, y])", "xp.select([x > 1, y > 0], [1, y], default=-7)",
        "xp.select([x[0] > 0], [y], 1.5)", "xp.choose(x > 0, [x, y], mode='clip')",
        "xp.choose((x * 3).astype(int), [x, y, 7.0], mode='wrap')",
        "xp.piecewise(x, [x < 0, x > 1], [lambda v: v * 2, 5, lambda v: v + 1])",
        "xp.piecewise(x, [x < 0], [lambda v: -v])", "xp.round(x)", "xp.round(x, 1)", "x.round(2)", "xp.around(x, 0)",
        "xp.round(x * 100, -1)", "xp.fix(x)", "xp.real(x)", "x.real", "x.imag", "xp.imag(x)", "x.conj()",
        "x.conjugate()", "xp.isreal(x)", "xp.iscomplex(x)", "xp.isclose(x, y)", "xp.isclose(x, x + 1e-9)",
        "xp.isclose(x, y, rtol=1.0)", "xp.nan_to_num(x)", "xp.array_equal(x, x)", "xp.array_equal(x, y)",
        "xp.array_equal(x, x[0])", "xp.allclose(x, x + 1e-12)", "xp.allclose(x, y)", "xp.array_equiv(x, x[None])",
        "xp.array_equiv(x, x[:, :2])", "xp.clip(x, 1, 0)", "xp.where(x > 0, x.astype(np.float32), 2)",
        "xp.where(x > 0, np.int8(1), y.astype(np.int16))",
    ],
)  # fmt: skip
def test_choices(agree: Any, numbers: Any, expression: str):
    def f(xp: Any, x: Any, y: Any) -> Any:
        out = written(expression, "x", "y")(xp, x, y)
        return np.bool_(out) if isinstance(out, bool) else out

    agree(f, numbers((3, 4)), numbers((3, 4), seed=1))


OF_ANY_DTYPE = [
    "xp.clip(x, 2, 5)", "xp.clip(x, -100000, 3)", "xp.round(x)", "xp.round(x, -1)", "xp.round(x, 2)",
    "xp.where(x > 3, x, 1)", "xp.isclose(x, 3)", "xp.nan_to_num(x)", "xp.select([x > 3], [x])",
    "xp.where(x > 3, x, 2.5)", "x.clip(min=4)",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.float16])
def test_choices_of_other_dtypes(agree_together: Any, numbers: Any, dtype: Any):
    agree_together([written(e, "x") for e in OF_ANY_DTYPE], numbers((7,), dtype))


@pytest.mark.parametrize(
    "expression",
    [
        "xp.nan_to_num(x)", "xp.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0)", "xp.isclose(x, x)",
        "xp.isclose(x, x, equal_nan=True)", "xp.isclose(x, x[::-1])", "xp.clip(x, -1, 1)", "xp.array_equal(x, x)",
        "xp.array_equal(x, x, equal_nan=True)", "xp.where(x > 0, x, 0)", "xp.round(x, 1)", "xp.fix(x)",
        "xp.allclose(x, x, equal_nan=True)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_special_values(agree: Any, expression: str, dtype: Any):
    def f(xp: Any, x: Any) -> Any:
        out = written(expression, "x")(xp, x)
        return np.bool_(out) if isinstance(out, bool) else out

    agree(f, np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.5, -1.25], dtype), symbolic=False)


@pytest.mark.parametrize(
    "expression",
    [
        "xp.where(x > 0, x, 0)", "xp.clip(x, 0, 1)", "xp.select([x > 0], [x])", "xp.round(x, 1)", "xp.isclose(x, x)",
        "xp.nan_to_num(x)", "xp.array_equal(x, x + 0)", "xp.choose(x > 0, [x, 1.0], mode='clip')",
    ],
)  # fmt: skip
def test_choices_need_no_extents(agree: Any, numbers: Any, expression: str):
    def f(xp: Any, x: Any) -> Any:
        out = written(expression, "x")(xp, x)
        return np.bool_(out) if isinstance(out, bool) else out

    agree(f, numbers((5, 3)), symbolic=True)


def test_copyto_and_fill_write_in_place():
    def f(x: Any, y: Any) -> Any:
        a = np.zeros_like(x)
        np.copyto(a, y)
        b = x.copy()
        np.copyto(b, 5, where=x > 1)
        c = x.copy()
        c.fill(3)
        return a, b, c

    x, y = np.arange(6.0).reshape(2, 3), np.array([7, 8, 9])
    for got, want in zip(tj.jit(f)(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_questions_about_dtypes():
    seen: list[Any] = []

    @tj.jit
    def f(x: Any) -> Any:
        seen.append(
            (
                np.result_type(x, np.float64),
                np.result_type(x, 2.0),
                np.can_cast(x, np.float64),
                np.iscomplexobj(x),
                np.isrealobj(x),
                np.shares_memory(x, x + 1),
            )
        )
        return x

    f(np.zeros(2, np.float32))
    assert seen == [(np.dtype(np.float64), np.dtype(np.float32), True, False, True, False)]


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        ("np.select([x], [x])", DtypeError, "condition 0 is"),
        ("np.select([x > 0], [x, x])", ShapeError, "1 conditions for 2 choices"),
        ("np.choose(x > 0, [x, x], mode='fold')", ShapeError, "mode is"),
        ("np.choose(x, [x], mode='clip')", DtypeError, "not an index"),
        ("np.where(x > 0, x, np.zeros(3))", ShapeError, "cannot be broadcast"),
        ("np.copyto(x.astype(int), 2.5 * x)", DtypeError, "cannot be cast to int64"),
        ("np.piecewise(x, [x > 0], [1, 2, 3])", ShapeError, "1 conditions"),
    ],
)  # fmt: skip
def test_errors_name_the_fault_and_the_line(expression: str, error: Any, message: str):
    f = eval(compile(f"lambda np, x: {expression}", "user_program.py", "eval"))
    with pytest.raises(error, match=message) as caught:
        tj.jit(lambda x: f(np, x))(np.zeros(2))
    assert "user_program.py" in str(caught.value)


def test_rows_of_a_bare_mask_are_conditions():
    x = np.arange(-4.0, 12.0).reshape(4, 4)

    def of_rows(x: Any) -> Any:
        return np.piecewise(x, np.array([x[0] > -3, x[0] > 2, x[0] < -3]), [1.0, 2.0, lambda y: 2 * y])

    def of_all(x: Any) -> Any:
        return np.piecewise(x[1], x[1] > 1, [5.0])

    def of_listed_rows(x: Any) -> Any:
        return np.piecewise(x, [x[:, 0] > 1, x[:, 1] > 5], [lambda y: -y, 3.0])

    for f in (of_rows, of_all, of_listed_rows):
        np.testing.assert_array_equal(tj.jit(f)(x), f(x))
    with pytest.raises(IndexError):
        tj.jit(of_rows)(x[:3])
    with pytest.raises(ValueError, match="conditions"):
        tj.jit(lambda x: np.piecewise(x, x > 0, [1.0]))(x)
