"""What the tests of NumPy's names share: one expression, computed by NumPy and in every way tracejit offers."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ir.types import aval_of
from tracejit.support.tree import flatten
from tracejit.tracer.stage import stage


def same(got: Any, want: Any, rtol: float, what: str) -> None:
    if isinstance(want, (tuple, list)):
        assert isinstance(got, (tuple, list)), f"{what}: {type(got).__name__}, not {type(want).__name__}"
        assert len(got) == len(want), what
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol, what)
        return
    g, w = np.asarray(got), np.asarray(want)
    assert g.dtype == w.dtype, f"{what}: dtype {g.dtype}, not {w.dtype}"
    assert g.shape == w.shape, f"{what}: shape {g.shape}, not {w.shape}"
    if rtol and w.dtype.kind == "f":
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol, err_msg=what)
    else:
        np.testing.assert_array_equal(g, w, err_msg=what)


def recorded(f: Callable[..., Any], xp: Any, args: list[Any]) -> str:
    """What a trace records, without NumPy's names being substituted: only the protocols lead to tracejit."""
    return str(stage(lambda *xs: flatten(f(xp, *xs))[0], [aval_of(a) for a in args]).jaxpr)


@pytest.fixture
def agree() -> Callable[..., None]:
    """agree(f, *args): f(xp, *args) gives what NumPy gives, called eagerly, compiled,
    and compiled with symbolic extents.

    Through NumPy's protocols the same is recorded; where it is not, that is compiled too.

    rtol: tolerance for floating point, 0 for equality to the bit.
    symbolic: True asserts that no extent was needed while tracing; None lets the trace specialise; False leaves it out.
    protocols: whether plain `np.` calls reach tracejit (False where NumPy does not dispatch).
    """

    def check(
        f: Callable[..., Any], *args: Any, rtol: float = 0.0, symbolic: bool | None = None, protocols: bool = True
    ) -> None:
        def fresh() -> list[Any]:
            return [a.copy() if isinstance(a, np.ndarray) else a for a in args]

        with np.errstate(all="ignore"):
            want = f(np, *fresh())
        same(f(tj.numpy, *fresh()), want, rtol, "eager")
        same(tj.jit(lambda *xs: f(tj.numpy, *xs))(*fresh()), want, rtol, "jit of tracejit.numpy")
        if protocols and recorded(f, np, fresh()) != recorded(f, tj.numpy, fresh()):
            same(tj.jit(lambda *xs: f(np, *xs))(*fresh()), want, rtol, "jit of numpy")
        if symbolic is not False:
            g = tj.jit(dynamic_shapes=True)(lambda *xs: f(tj.numpy, *xs))
            same(g(*fresh()), want, rtol, "symbolic")
            if symbolic:
                head = g.explain().splitlines()[0]
                assert "n0" in head, f"specialised: {head}"

    return check


@pytest.fixture
def agree_together(agree: Callable[..., None]) -> Callable[..., None]:
    """agree_together(functions, *args): `agree` for several functions at a time, compiled as one with many results."""

    def check(functions: Sequence[Callable[..., Any]], *args: Any, rtol: float = 0.0) -> None:
        for n in range(0, len(functions), 8):
            chunk = functions[n : n + 8]
            agree(
                lambda xp, *xs, fs=chunk: tuple([f(xp, *xs) for f in fs]),
                *args,
                rtol=rtol,
                symbolic=False,
                protocols=False,
            )

    return check


def numbers(shape: Any, dtype: Any = np.float64, seed: int = 0) -> Any:
    """Values that differ, small enough for every dtype."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


@pytest.fixture(name="numbers")
def numbers_fixture() -> Callable[..., Any]:
    """numbers(shape, dtype, seed): random values of any dtype."""
    return numbers


SIZES = (20, 20, 33, 7, 1, 2, 0)  # the second of a kind runs what the first has compiled, the third is for all sizes


def outcome(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, list[Any], type[Exception] | None]:
    """(the result, the arguments afterwards, the class of the exception)."""
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # NumPy's, of the mean of nothing
        try:
            return f(*args), args, None
        except Exception as error:
            return None, args, error.__class__


@pytest.fixture
def agree_at_sizes(record_backend: Callable[[str], None]) -> Callable[..., None]:
    """agree_at_sizes(f, data, backend="cpu"): one compiled function gives what Python gives, for data of many sizes.

    data(generator, n): arguments of size n.  Results are compared in structure, shape, dtype and value, arguments
    afterwards, and exceptions by class.
    """

    def check(
        f: Callable[..., Any],
        data: Callable[[np.random.Generator, int], tuple[Any, ...]],
        backend: str = "cpu",
        sizes: Sequence[int] = SIZES,
        seeds: int = 2,
    ) -> None:
        record_backend(backend)
        jitted = tj.jit(f, backend=backend)
        for n in sizes:
            for seed in range(seeds):
                args = data(np.random.default_rng(100 * n + seed), n)
                what = f"{f.__name__} of size {n}, seed {seed}"
                want, after, error = outcome(f, args)
                got, changed, failed = outcome(jitted, args)
                if error is not None or failed is not None:
                    assert error is not None, f"{what}: {failed}"
                    assert failed is not None, f"{what}: no {error}"
                    assert issubclass(failed, error), f"{what}: {failed}, not {error}"
                    continue
                same(got, want, 1e-12, what)
                same(changed, after, 1e-12, f"arguments of {what}")

    return check
