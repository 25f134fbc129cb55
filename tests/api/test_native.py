"""`tj.native`: what users write in the languages of backends, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import CompileError, DtypeError, OptionError, ShapeError, UnsupportedError, UserError

pytestmark = pytest.mark.opencl

# -(x * y), which no fallback below is: the sign tells which of them ran.
SOURCES: dict[str, Any] = {
    "cpu": "p = fmul {type} {0}, {1}\nfneg {type} {p}",
    "cuda": "p = fmul {type} {0}, {1}\nfneg {type} {p}",
    "opencl": "(-({0} * {1}))",
    "vulkan": "p = OpFMul {type} {0} {1}\nOpFNegate {type} {p}",
    "reference": lambda x, y: -(x * y),
}
X = np.linspace(-2.0, 3.0, 1003)
Y = np.linspace(1.0, 2.0, 1003)


def product(x: Any, y: Any) -> Any:
    return np.multiply(x, y)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_an_expression_is_one_kernel_with_what_is_around_it(backend: str, dtype: str):
    own = tj.native(SOURCES, fallback=product)
    x, y = X.astype(dtype), Y.astype(dtype)
    f = tj.jit(lambda x, y: np.sum(own(x + 1, y) * 2), backend=backend)
    sign = -1 if backend in SOURCES else 1
    want = sign * np.sum((x.astype("f8") + 1) * y * 2)
    np.testing.assert_allclose(f(x, y), want, rtol=60 * float(np.finfo(dtype).eps))
    g = tj.jit(lambda x, y: own(x + 1, y) * 2, backend=backend)
    np.testing.assert_allclose(g(x, y), sign * (x + 1) * y * 2, rtol=4 * float(np.finfo(dtype).eps))
    assert g(x, y).dtype == np.dtype(dtype)
    assert g.lower(x, y).text("program").count("launch") == 1


def test_operands_are_promoted_and_broadcast(backend: str):
    own = tj.native(SOURCES, fallback=lambda x, y: -product(x, y))
    f = tj.jit(lambda x, n: (own(x[:, None], n), own(x, 2), own(1.5, x)), backend=backend)
    x, n = X[:5].astype("f4"), np.arange(3)
    by_array, by_number, of_number = f(x, n)
    np.testing.assert_allclose(by_array, -(x[:, None] * n), rtol=1e-6)
    np.testing.assert_allclose(by_number, -(x * 2), rtol=1e-6)
    np.testing.assert_allclose(of_number, -(1.5 * x), rtol=1e-6)
    assert (by_array.dtype, by_number.dtype) == (np.float64, np.float32)


def test_the_fallback_runs_and_is_differentiated(backend: str):
    own = tj.native({"reference": SOURCES["reference"]}, fallback=lambda x, y: -product(x, y))
    f = tj.jit(tj.grad(lambda x, y: np.sum(own(x, y) ** 2), (0, 1)), backend=backend)
    for got, want in zip(f(X, Y), (2 * X * Y * Y, 2 * X * X * Y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    _, tangent = tj.jit(lambda x, y: tj.jvp(own, (x, y), (np.ones_like(x), np.ones_like(y))), backend=backend)(X, Y)
    np.testing.assert_allclose(tangent, -(X + Y), rtol=1e-12, atol=1e-12)


def test_rules_of_the_user_s_are_used(backend: str):
    forward = tj.native(SOURCES, fallback=product)
    reverse = tj.native(SOURCES, fallback=product)
    assert forward.defjvp(rule := lambda primals, tangents: (forward(*primals), 7 * tangents[0])) is rule
    reverse.defvjp(lambda x, y: (reverse(x, y), y), lambda y, g: (g * y, 5 * g))
    f = tj.jit(tj.grad(lambda x, y: np.sum(forward(x, y)), (0, 1)), backend=backend)
    np.testing.assert_array_equal(f(X, Y), (np.full(1003, 7.0), np.zeros(1003)))
    g = tj.jit(tj.grad(lambda x, y: np.sum(reverse(x, y)), (0, 1)), backend=backend)
    np.testing.assert_array_equal(g(X, Y), (Y, np.full(1003, 5.0)))


def test_under_vmap_and_in_functions_that_are_compiled_by_themselves(backend: str):
    own = tj.native(SOURCES, fallback=lambda x, y: -product(x, y))
    inner = tj.jit(lambda x, y: own(x, y) + 1)
    f = tj.jit(tj.vmap(lambda x, y: inner(x, y) * 2, in_axes=(1, None)), backend=backend)
    x = X[:12].reshape(3, 4)
    np.testing.assert_allclose(f(x, Y[:3]), (1 - x.T * Y[:3]) * 2, rtol=1e-12)

    def repeated(x: Any, y: Any) -> Any:
        for _ in range(len(x)):
            x = own(x, y)
        return x

    x = X[:7].copy()
    np.testing.assert_allclose(tj.jit(repeated, backend=backend)(x, Y[:7]), repeated_by_numpy(x, Y[:7]), rtol=1e-12)


def repeated_by_numpy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    for _ in range(len(x)):
        x = -(x * y)
    return x


def test_on_arrays_outside_of_compiled_functions():
    own = tj.native(SOURCES)
    np.testing.assert_array_equal(own(X, Y), -(X * Y))  # the source of the reference
    only = tj.native({"cpu": SOURCES["cpu"]}, name="minus_product")
    with pytest.raises(UnsupportedError, match=r"minus_product \(tj.native\) is called on NumPy arrays outside of"):
        only(X, Y)
    np.testing.assert_array_equal(tj.jit(lambda x, y: only(x, y))(X, Y), -(X * Y))


def test_what_is_missing_is_named_at_the_call():
    only = tj.native({"cpu": SOURCES["cpu"]}, name="minus_product")
    with pytest.raises(UnsupportedError, match=r"minus_product .* no source for the reference backend, only for") as e:
        tj.jit(lambda x, y: only(x, y) + 1, backend="reference")(X, Y)
    assert (e.value.backend, e.value.primitive) == ("reference", "native")
    assert str(e.value).splitlines()[-1].strip() == "^" * len("only(x, y)")
    with pytest.raises(UnsupportedError, match=r"minus_product .* has no derivative; give it one with its defjvp"):
        tj.jit(tj.grad(lambda x, y: np.sum(only(x, y))))(X, Y)
    with pytest.raises(UserError, match=r"minus_product \(tj.native\) takes 2 operands, not 1"):
        only(X)


def test_fallbacks_that_give_something_else_are_refused():
    wrong = tj.native({"reference": np.sqrt}, fallback=lambda x: np.sum(x))
    with pytest.raises(ShapeError, match=r"the fallback of <lambda> \(tj.native\) gives shape"):
        tj.jit(lambda x: wrong(x))(X)
    whole = tj.native({"reference": np.sqrt}, fallback=lambda x: x > 0)
    with pytest.raises(DtypeError, match=r"the fallback of <lambda> \(tj.native\) gives bool"):
        tj.jit(lambda x: whole(x))(X)


@pytest.mark.parametrize(
    ("backend", "source", "log"),
    [("cpu", "fsin {type} {0}", "expected instruction opcode"), ("opencl", "no_such({0})", "no_such")],
)
def test_a_source_that_does_not_compile_gives_the_compiler_s_log(
    backend: str, source: str, log: str, record_backend: Callable[[str], None]
):
    record_backend(backend)
    own = tj.native({backend: source})
    with pytest.raises(CompileError) as error:
        tj.jit(lambda x: own(x), backend=backend)(X)
    assert log in error.value.log
    assert str(error.value).split("log:")[0].rstrip().splitlines()[-1].strip() == "^" * len("own(x)")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({}, "tj.native: sources is {}; it is a dict of backends and their templates"),
        ("native_exp({0})", "it is a dict of backends and their templates"),
        ({"cpux": "{0}"}, "there is no backend 'cpux'"),
        ({"cpu": "fneg {type} %x"}, "for the cpu backend has no operand {0}"),
        ({"cpu": "fneg {type} {0", "reference": np.sqrt}, "for the cpu backend is no template"),
        ({"reference": lambda x: x, "opencl": "{0} + {1}"}, "for the reference backend is called with 2 arrays"),
    ],
)  # fmt: skip
def test_what_is_no_source_is_refused_where_it_is_given(sources: Any, message: str):
    with pytest.raises((UserError, OptionError)) as error:
        tj.native(sources)
    assert message in str(error.value)
