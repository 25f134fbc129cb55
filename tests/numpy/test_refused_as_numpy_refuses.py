"""Calls in place, with out= or with options, that NumPy refuses, and their neighbours, which it does not."""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import IndexOutOfBounds, TracejitError, UnorderedBins

X, Z, I = np.array([1.0, 2.0, 3.0]), np.array([1 + 2j, 3 - 4j]), np.array([2, 0, 1])
M = np.arange(12.0).reshape(3, 4)


def put_along_a_part(x):
    np.put_along_axis(x[:, ::2], np.array([1, 2]), 9.0, None)


def put_along_a_transpose(x):
    np.put_along_axis(x.T, np.array([1, 2]), 9.0, None)


def put_along_rows(x):
    np.put_along_axis(x[1:], np.array([1, 2]), 9.0, None)


def clipped_into_a_number(x):
    v = x[0]
    return np.clip(v, 0, 2, out=v)


def added_into_a_number(x):
    v = x[0]
    return np.add(v, 2, out=v)


REFUSED = {
    "a row for three numbers": (lambda x: np.maximum.at(x, [1, 1, 0], np.ones((1, 3))), X),
    "a vector for a number": (lambda x, y: np.power.at(x, 2, y[:1]), X, X),
    "a vector for a number, added": (lambda x, y: np.add.at(x, 2, y[:1]), X, X),
    "a row for a slice": (lambda x, y: np.add.at(x, slice(0, 2), y[:1][None]), X, X),
    "a row for a mask": (lambda x, y: np.add.at(x, x > 1, y[:1][None]), X, X),
    "a vector for one row's element": (lambda x, y: np.add.at(x, (0, 1), y[:1]), M, X),
    "elements of none": (lambda x, v: x.put([1], v), np.zeros(0), 3.0),
    "a part along no axis": (put_along_a_part, M),
    "a transpose along no axis": (put_along_a_transpose, M),
    "clip into a number": (clipped_into_a_number, X),
    "add into a number": (added_into_a_number, X),
    "take into floats": (lambda x, y: np.take(x, [0, 1], axis=0, out=y), I, np.zeros(2, np.float32)),
    "take, clipped": (lambda x, y: np.take(x, [0, 1], axis=0, out=y, mode="clip"), I, np.zeros(2)),
    "compress": (lambda x, y: np.compress([True, True, False], x, out=y), I, np.zeros(2, np.float32)),
    "round to 2**31": (lambda x: np.round(x, 2**31), X),
    "round to more": (lambda x: x.round(np.uint64(2**63 + 5)), X),
    "no values to place": (lambda x: np.place(x, x > 1, []), X),
    "the identity of none": (lambda x: np.logical_and.reduce(x, initial=None), np.zeros(0)),
    "the sum of none": (lambda x: np.add.reduce(x, initial=None), np.zeros(0)),
    "an axis of numbers": (lambda a, b: np.lexsort((a, b), axis=5), np.array(1.0), np.array(2.0)),
    "jumps of another shape": (lambda x: np.unwrap(x[:2], np.ones(5)), X),
    "weights of bools": (lambda x: np.histogram(x, [0, 1, 3], weights=x > 1), X),
    "a choice that there is not": (lambda i, a: np.choose(i, [a, a]), I, X),
    "a choice by uint64": (lambda i, a: np.choose(i, [a, a, a]), I.astype(np.uint64), X),
    "parts from places of uint64": (lambda i, a: np.add.reduceat(a, i), I.astype(np.uint64), X),
    "a choice before the first": (lambda i, a: np.choose(i - 1, [a, a, a]), I, X),
}

ANSWERED = {
    "a row of numbers": (lambda x: np.maximum.at(x, [[1, 1, 0]], np.full((1, 3), 7.0)), X),
    "a vector for a slice": (lambda x, y: np.add.at(x, slice(0, 2), y[:1]), X, X),
    "a vector for rows": (lambda x, y: np.add.at(x, [0, 0], y[:1]), M, X),
    "a known mask": (lambda x: np.multiply.at(x, np.array([True, False, True]), 2), X),
    "a known mask and values": (lambda x, v: np.multiply.at(x, np.array([True, False, True]), v[:2]), X, X),
    "a known mask and an index": (lambda x: np.multiply.at(x, (np.array([True, False, True]), 1), 2), M),
    "a known mask, of one operand": (lambda x: np.negative.at(x, np.array([True, False, True])), X),
    "a mask of the trace": (lambda x: np.subtract.at(x, np.arange(3) > 0, 2), X),
    "rows": (put_along_rows, M),
    "take into integers": (lambda x, y: np.take(x, [0, 1], axis=0, out=y), X, np.zeros(2, np.int64)),
    "take into narrow ones": (lambda x, y: x.take([0, 1], out=y), I, np.zeros(2, np.int32)),
    "round to -2**31": (lambda x: np.round(x, -(2**31)), X),
    "no places for no values": (lambda x: np.place(x, x > 99, []), X),
    "no identity": (lambda x: np.logical_and.reduce(x, initial=None), X),
    "any from a number": (lambda x: np.logical_or.reduce(x > 9, initial=2), X),
    "all from zero": (lambda x: np.logical_and.reduce(x, initial=0, where=x > 1), X),
    "all as bools": (lambda x: np.logical_and.reduce(x, dtype=bool), X),
    "extrema of complex numbers": (lambda x: np.maximum.reduceat(x, [0, 1, 0]), Z),
    "extrema at places": (lambda x: np.minimum.at(x, [0, 0, 1], x[::-1][np.array([0, 1, 0])]), Z),
    "axis -1 of numbers": (lambda a, b: np.lexsort((a, b), axis=-1), np.array(1.0), np.array(2.0)),
    "one jump for all": (lambda x: np.unwrap(x * 3, np.ones(1)), X),
    "edges of bools": (lambda x: np.histogram_bin_edges(x > 1, 3), X),
    "bins of bools": (lambda x: np.histogram(x > 1, 3), X),
    "boxes of bools": (lambda x: np.histogramdd(np.stack([x > 1, x > 2], 1), 3)[1], X),
    "ranges of boxes": (lambda x: np.histogram2d(x, x, 2, [[0, 4], [0, 4]]), X.astype(np.float32)),
    "a last edge of NaN": (lambda x: np.histogram(x, [0, np.nan]), np.array([1.0, np.nan, -1.0])),
    "several of them": (lambda x: np.histogram(x, [0, 1.5, np.nan, np.nan]), np.array([1.0, np.nan, 2.0])),
    "boxes up to NaN": (lambda x: np.histogramdd(x[:, None], [[0, np.nan]])[0], np.array([1.0, np.nan, -1.0])),
    "unsigned coordinates": (lambda x, y: np.gradient(x, y), X, np.array([9, 3, 4], np.uint8)),
    "complex weights": (lambda x, w: np.histogram(x, 3, weights=w * 1j), X, X),
    "choices": (lambda i, a: np.choose(i, [a, 2 * a, 7.0]), I, X),
    "choices by bools": (lambda x: np.choose(x > 1, [x, -x]), X),
    "choices of rows": (lambda i, m: i.choose(m), I, M[:, :3]),
}


def outcome(f, arguments):
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    found = f(*arguments)
    return *(found if isinstance(found, (tuple, list)) else (found,)), *arguments


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name):
    f, *arguments = REFUSED[name]
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)) as theirs:
        outcome(f, arguments)
    with pytest.raises(TracejitError) as ours:
        outcome(tj.jit(f), arguments)
    kinds = (TypeError, ValueError, IndexError, OverflowError)
    assert any(isinstance(theirs.value, kind) and isinstance(ours.value, kind) for kind in kinds), ours.value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ANSWERED)
def test_what_numpy_answers_has_its_answer(name):
    f, *arguments = ANSWERED[name]
    for got, want in zip(outcome(tj.jit(f), arguments), outcome(f, arguments), strict=True):
        if want is None:
            assert got is None
        else:
            np.testing.assert_array_equal(got, want, strict=True)


def test_edges_behind_a_nan_are_refused():
    with pytest.raises(UnorderedBins):  # NumPy counts less than none there
        tj.jit(lambda x: np.histogram(x, [np.nan, 2, np.nan]))(X)


def test_a_choice_that_there_is_not_is_an_index_error_after_the_program_has_run():
    def chosen(i, x):
        x[0] = 9
        return np.choose(i, [x, -x])

    f, x = tj.jit(chosen), X.copy()
    np.testing.assert_array_equal(f(np.array([0, 1, 1]), x), [9, -2, -3])
    before = x.copy()
    x[0] = before[0] = 5
    with pytest.raises(IndexOutOfBounds, match="no number of a choice"):
        f(np.array([0, 2, 1]), x)
    np.testing.assert_array_equal(x, before)


def test_quotients_of_integers_at_an_index_are_true_quotients():
    x = np.array([7, 8, 9])
    for index in (1, [0, 0, 2], np.array([True, False, True]), slice(1, None)):
        made = tj.jit(lambda x, index=index: x.at[index].divide(2))(x)
        want = x.astype(float)
        np.divide.at(want, index, 2)
        np.testing.assert_array_equal(made, want, strict=True)
    masked = tj.jit(lambda x: x.at[x > 7].divide(2))(x)
    np.testing.assert_array_equal(masked, [7, 4, 4.5], strict=True)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: np.floor(x), "np.floor does not accept c128"),
        (lambda x: x // 2, "np.floor_divide does not accept c128"),
        (lambda x: np.left_shift(x, 1), "np.left_shift does not accept"),
        (lambda x: np.argmax(x[:0]), "np.argmax: an empty axis"),
        (lambda x: np.poly(x), "np.poly of complex zeros"),
    ],
)
def test_errors_name_functions_of_numpys_and_no_primitives(f, message):
    with pytest.raises(TracejitError) as caught:
        tj.jit(f)(Z)
    assert caught.value.message.startswith(message)


LISTS = [
    lambda x: np.fft.fft([x[0], 1]), lambda x: np.fft.rfft2([[x[0], 1], [x[1], x[2]]]), lambda x: np.sort([x[2], x[0]]),
    lambda x: np.median([x[0], x[1], 7]), lambda x: np.unique([x[0], 1]), lambda x: np.isnan([x[0], 1]),
    lambda x: np.round([x[0], 1.5]), lambda x: np.abs([x[0], -1]), lambda x: np.add([x[0], 1], [2, 3]),
    lambda x: np.argsort([x[1], x[0]]), lambda x: np.allclose([x[0], 1], 1), lambda x: np.histogram([x[0], 1.0]),
    lambda x: np.union1d([x[0], 2], [3, x[1]]), lambda x: np.interp([x[0]], [0, 1, 2], x),
    lambda x: np.exp((x[0], x[1])), lambda x: np.cov([x, x + 1]), lambda x: np.divmod([x[0], x[1]], 2),
    lambda x: np.quantile([x[0], x[1]], 0.5), lambda x: np.nancumsum([x[0], x[1]]),
    lambda x: np.bitwise_not([x[0] > 1]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LISTS)))
def test_lists_of_traced_numbers_are_arrays(number):
    f = LISTS[number]
    got, want = tj.jit(f)(X), f(X)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("name", ["irfft", "hfft", "irfftn", "ihfft", "rfft", "fft", "irfft2"])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16, np.float32])
def test_transforms_have_numpys_dtype(name, dtype):
    x = np.ones((4, 6) if name.endswith("2") else 6, dtype)
    f = getattr(np.fft, name)
    got, want = tj.jit(lambda x: f(x))(x), f(x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, atol=1e-3)
