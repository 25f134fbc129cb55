"""Arrays of iterators, memory, text and files."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError

X = np.arange(4.0) + 0.5


def doubled(x: Any) -> Any:
    return np.fromiter((2 * v for v in x), np.float32)


def whole(x: Any) -> Any:
    return np.fromiter([x[0], 1, -2.5], int)


def some(x: Any) -> Any:
    found = np.fromiter((k * k for k in range(9)), float, 3)
    found[0] = x[1]
    return found


def endless(x: Any) -> Any:
    def powers() -> Any:
        value = x[1]
        while True:
            yield value
            value = value * value

    return np.fromiter(powers(), float, count=4)


@pytest.mark.parametrize("function", [doubled, whole, some, endless])
def test_arrays_of_iterators_in_traced_functions(function: Any):
    got, want = tj.jit(function)(X), function(X)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_they_have_derivatives_and_are_mapped():
    f = lambda x: np.sum(np.fromiter((v * v for v in x), float))  # noqa: E731
    np.testing.assert_allclose(tj.grad(f)(X), 2 * X)
    np.testing.assert_allclose(tj.vmap(doubled)(np.stack([X, -X])), [2 * X, -2 * X])


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (lambda x: np.fromiter((v for v in x), float, 9), ShapeError, "iterator too short: Expected 9 .* only 4 items"),
        (lambda x: np.fromiter([x], float), ShapeError, "setting an array element with a sequence"),
        (lambda x: np.fromiter([x[0] + 1j], float), DtypeError, "would lose the imaginary part"),
        (lambda x: tj.numpy.save(io.BytesIO(), x), UnsupportedError, "np.save is not supported in traced code"),
        (lambda x: tj.numpy.savez(io.BytesIO(), x), UnsupportedError, "np.savez is not supported in traced code"),
        (lambda x: tj.numpy.frombuffer(x), UnsupportedError, "np.frombuffer of a traced array reads its bits"),
    ],
)
def test_what_cannot_be_traced_is_refused_by_name(function: Any, error: type, text: str):
    with pytest.raises(error, match=text):
        tj.jit(function)(X)


def test_what_is_too_short_is_an_error_as_numpys():
    for call in (np.fromiter, tj.numpy.fromiter):
        with pytest.raises(ValueError, match="iterator too short"):
            call(range(3), float, 5)


def test_files_are_read_and_written(tmp_path: Path):
    one, several, plain = tmp_path / "one.npy", tmp_path / "several.npz", tmp_path / "plain"
    tj.numpy.save(one, tj.numpy.asarray(X))
    np.testing.assert_array_equal(np.load(one), X)
    got = tj.numpy.load(one)
    assert isinstance(got, tj.Array)
    np.testing.assert_array_equal(got, X)
    tj.numpy.savez(several, tj.numpy.asarray(X), b=X + 1)
    np.testing.assert_array_equal(tj.numpy.load(several)["b"], X + 1)
    X.tofile(plain)
    for call in (tj.numpy.fromfile, tj.jit(lambda x: np.fromfile(str(plain)) * x)):
        np.testing.assert_array_equal(call(plain if call is tj.numpy.fromfile else np.ones(4)), X)


def test_memory_and_text():
    got = tj.numpy.frombuffer(X.tobytes(), count=2, offset=8)
    assert isinstance(got, tj.Array)
    np.testing.assert_array_equal(got, X[1:3])
    np.testing.assert_array_equal(tj.numpy.fromstring("1,2", int, sep=","), [1, 2])
    memory = bytearray(8)
    kept = tj.numpy.frombuffer(memory)
    memory[:] = b"\x3f" * 8
    assert float(kept[0]) == 0.0
