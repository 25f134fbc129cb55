# ruff: noqa: RUF060 -- written as users do

import numpy as np
import pytest

import tracejit as tj


def in_a_loop(k):
    s = 0
    for i in range(len(k)):
        if k[i] in (1, 3):
            s += 1
        elif k[i] not in [0, 5]:
            s += 100
    return s


def in_sets(k):
    s = 0
    for v in k:
        if v in {2, 7} and v not in (s,):
            s += v
    return s


def of_an_argument(k, n):
    return k * 2 if n in (1, 2) else k


def among_traced_ones(k):
    m = k.sum() in (k[0], k[-1], 6)
    return m


def of_sizes(k):
    return k.shape[0] in (3, 4), len(k) in {5}, 3 in (len(k), 7)


def beside_text_and_none(k):
    return k[0] in ("a", None, 1)


def in_nothing(k):
    return k[0] in ()


def floats_and_bools(k):
    x = k * 0.5
    return x[0] in (0.5, 1), x[1] in [True]


def in_a_while(k):
    n = 0
    while k[n % len(k)] not in (0, 9) and n < 20:
        n += 1
    return n


def of_python_s_own(k):
    return [v in (1, 2) for v in (1, 3)], "a" in ("a", "b")


@pytest.mark.parametrize(
    ("function", "more"),
    [
        (in_a_loop, ()),
        (in_sets, ()),
        (of_an_argument, (1,)),
        (of_an_argument, (3,)),
        (among_traced_ones, ()),
        (of_sizes, ()),
        (beside_text_and_none, ()),
        (in_nothing, ()),
        (floats_and_bools, ()),
        (in_a_while, ()),
        (of_python_s_own, ()),
    ],
)
def test_numbers_among_elements_in_the_code(function, more):
    jitted = tj.jit(function)
    for values in ([1, 2, 3], [3, 3, 9, 0], [5, 0, 1, 7, 2], [0, 0], [6, 0, 0]):
        k = np.array(values)
        got, want = jitted(k, *more), function(k, *more)
        assert repr(got) == repr(want) or (np.ndim(want) == 0 and got == want)


def test_a_nan_is_among_itself():
    def f(x):
        y = x[0]
        return y in (1.0, y), x[0] in (1.0, x[0])

    assert tj.jit(f)(np.array([np.nan])) == f(np.array([np.nan])) == (True, False)


def test_elements_are_evaluated_once():
    calls = []

    def f(x):
        def seen(v):
            calls.append(v)
            return v

        return x[0] in (seen(1), seen(2))

    tj.jit(f)(np.array([2]))
    assert calls == [1, 2]


TRIPLE = (3, 7, 9)
FLOATS = [1.0, 2.5]
SET = {1, 2}
DICT = {1: 2, 3: 4}
STEPS = range(2, 10, 3)
DOWN = range(10, 0, -4)
ARRAY = np.array([1, 3])


def in_names_of_collections(k):
    s = 0
    for v in k:
        if v in TRIPLE:
            s += 1
        if v in FLOATS:
            s += 10
        if v in SET and v not in DICT:
            s += 100
        if v in STEPS:
            s += 1000
        if v in DOWN or v in range(3, 3):
            s += 10_000
        if v not in ARRAY:
            s += 100_000
    return s


def in_an_argument(k):
    return [1 if v in k else 0 for v in (0, 2.0, 5, 300, -1, np.nan)]


def those_seen(k):
    seen = np.zeros_like(k)
    n = 0
    for v in k:
        if v not in seen[:n]:
            seen[n] = v
            n += 1
    return seen, n


def rows_in_an_array(k):
    return k[:1] in k, k in k[:1]


def whole_numbers(k):
    n = 0
    for v in k * 0.5:
        if v.is_integer():
            n += 1
        if float(v + 0.5).is_integer():
            n += 100
    return n, k[0].is_integer(), (k / (k - k[0]))[0].is_integer()


def items(k):
    return k.item(-1), k.item(0) / np.float32(3), k.sum().item(), k[None].T.item(1), k[:2, None].item(1, 0)


@pytest.mark.parametrize(
    "function", [in_names_of_collections, in_an_argument, those_seen, rows_in_an_array, whole_numbers, items]
)
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_collections_that_have_a_name(function, dtype):
    jitted = tj.jit(function)
    for values in ([1, 2, 3], [3, 3, 9, 0], [5, 0, 1, 7, 2], [0, 0], [6, 0, 0], list(range(13))):
        k = np.array(values, dtype)
        got, want = jitted(k), function(k)
        for x, y in zip(*((r if isinstance(r, (tuple, list)) else [r]) for r in (got, want)), strict=True):
            assert type(x) is type(y)
            np.testing.assert_array_equal(x, y, strict=True)


def test_items_that_there_are_not():
    with pytest.raises(IndexError):
        tj.jit(lambda x: x.item(7))(np.arange(5.0))
    with pytest.raises(ValueError, match="can only convert an array of size 1 to a Python scalar"):
        tj.jit(lambda x: x.item())(np.arange(5.0))
    with pytest.raises(TypeError):
        tj.jit(lambda x: 3 in x[2])(np.arange(5.0))


def test_an_item_keeps_its_derivative():
    assert tj.grad(lambda x: (x * x).sum().item() * 2.0)(np.array([3.0])) == [12.0]
