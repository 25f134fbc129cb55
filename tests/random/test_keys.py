"""Keys: the words of Threefry-2x32, as published and as JAX's default has them."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.primitives.random import Threefry2x32
from tracejit.support.errors import DtypeError, NumberOutOfBounds, OptionError, ShapeError
from tracejit.tracer.interpreter import bind

KEY = tj.random.key(42)

# Random123's known answers: key, counter, block
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def test_a_bool_of_python_is_a_seed_as_in_jax():
    np.testing.assert_array_equal(tj.random.key(True), [0, 1])
    np.testing.assert_array_equal(tj.random.fold_in(KEY, True), tj.random.fold_in(KEY, 1))
    with pytest.raises(DtypeError, match="a seed is an integer"):
        tj.random.key(np.True_)


@pytest.mark.parametrize(("key", "counter", "block"), KNOWN)
def test_blocks_are_those_of_the_published_answers(key: Any, counter: Any, block: Any):
    words = [np.uint32(w) for w in (*key, *counter)]
    assert tuple(bind(Threefry2x32(), *words)) == block
    f = tj.jit(lambda k, c: tj.random.fold_in(k, c))
    if counter[0] == 0:
        np.testing.assert_array_equal(f(np.array(key, np.uint32), counter[1]), block)


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (0, [0, 0]),
        (42, [0, 42]),
        (-1, [2**32 - 1, 2**32 - 1]),
        (2**32 + 5, [1, 5]),
        (-(2**63), [2**31, 0]),
        (2**63 - 1, [2**31 - 1, 2**32 - 1]),
        (np.int64(-5), [2**32 - 1, 2**32 - 5]),
        (np.int32(-1), [0, 2**32 - 1]),
        (np.uint8(7), [0, 7]),
        (np.uint64(2**63), [2**31, 0]),
    ],
)
def test_a_key_is_the_high_and_the_low_half_of_the_seed(seed: Any, words: list[int]):
    for key in (tj.random.key, tj.random.PRNGKey, tj.jit(lambda s: tj.random.key(s))):
        found = key(seed)
        assert found.dtype == np.uint32
        assert list(found) == words


def test_split_and_fold_in_give_the_keys_of_jax():
    three = [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]]
    for split in (tj.random.split, tj.jit(tj.random.split, static_argnums=1)):
        assert split(KEY, 3).tolist() == three
        assert split(KEY).tolist() == three[:2]
        assert split(KEY, (2, 2)).tolist() == [three[:2], [three[2], [3134548294, 894150801]]]
        assert split(KEY, 0).shape == (0, 2)
    for fold_in in (tj.random.fold_in, tj.jit(tj.random.fold_in)):
        assert fold_in(KEY, 0).tolist() == three[0]
        assert fold_in(KEY, 7).tolist() == [2547012911, 1371500959]
        assert fold_in(KEY, 2**32 - 1).tolist() == [2398536845, 3890976714]
        assert fold_in(KEY, np.int64(-1)).tolist() == [2398536845, 3890976714]


def test_keys_are_unpacked_in_loops_and_batches():
    def walk(key: Any) -> Any:
        total = 0.0
        for _ in tj.range(5):
            key, part = tj.random.split(key)
            total = total + tj.random.uniform(part)
        return total

    key, want = KEY, 0.0
    for _ in range(5):
        key, part = tj.random.split(key)
        want = want + tj.random.uniform(part)
    assert tj.jit(walk)(KEY) == want
    seeds = np.arange(4)
    keys = tj.jit(tj.vmap(tj.random.key))(seeds)
    np.testing.assert_array_equal(keys, [tj.random.key(int(s)) for s in seeds])
    np.testing.assert_array_equal(
        tj.jit(tj.vmap(lambda k: tj.random.split(k, 3)))(keys), [tj.random.split(k, 3) for k in keys]
    )
    folded = tj.jit(tj.vmap(tj.random.fold_in, in_axes=(None, 0)))(KEY, seeds)
    np.testing.assert_array_equal(folded, [tj.random.fold_in(KEY, int(s)) for s in seeds])


def test_words_of_keys_are_what_keys_are():
    assert tj.random.key_data(KEY).tolist() == [0, 42]
    assert tj.random.wrap_key_data(np.array([0, 42], np.uint32)).tolist() == [0, 42]
    copy = tj.random.clone(KEY)
    copy[0] = 1
    assert KEY[0] == 0
    assert tj.random.key_impl(KEY) == "threefry2x32"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tj.random.normal(0), DtypeError, "a key, uint32 of shape (2,), is what tj.random.key(seed) gives"),
        (lambda: tj.random.bits(np.zeros((3, 2), np.uint32)), ShapeError, "use tj.vmap for several keys"),
        (lambda: tj.random.split(np.zeros(3, np.uint32)), ShapeError, "not uint32[3]"),
        (lambda: tj.random.key(1.5), DtypeError, "a seed is an integer"),
        (lambda: tj.random.key(np.arange(3)), ShapeError, "a seed is one integer"),
        (lambda: tj.random.key(2**63), NumberOutOfBounds, "does not fit 64 bits"),
        (lambda: tj.random.key(0, impl="rbg"), OptionError, "impl='rbg' is not to be had"),
        (lambda: tj.random.fold_in(KEY, -1), NumberOutOfBounds, "outside of the 32 bits"),
        (lambda: tj.random.fold_in(KEY, 1.5), DtypeError, "takes integers"),
        (lambda: tj.random.wrap_key_data(np.zeros(2)), DtypeError, "keys are uint32"),
        (lambda: tj.random.key_data(np.zeros(3, np.uint32)), ShapeError, "two words"),
    ],
)
def test_what_is_no_key_or_seed_is_an_error(call: Any, error: type[Exception], text: str):
    with pytest.raises(error) as found:
        call()
    assert text in str(found.value)
