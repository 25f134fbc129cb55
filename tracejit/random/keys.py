"""Keys: arrays of two words, from which numbers and further keys are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.ir.extents import prod
from tracejit.primitives.comparison import ShiftRight
from tracejit.primitives.elementwise import convert
from tracejit.primitives.random import Threefry2x32
from tracejit.primitives.shape import concatenate, reshape
from tracejit.random.operands import as_shape, aval, blocks, integers, operand, reject, words_of
from tracejit.support.errors import DtypeError, NumberOutOfBounds, OptionError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind

__all__ = ["PRNGKey", "clone", "fold_in", "key", "key_data", "key_impl", "split", "wrap_key_data"]

_NAMES = (None, "threefry2x32")


def key(seed: ArrayLike, *, impl: Any = None) -> Result:
    """A key from an integer seed: its high and its low 32 bits.   -> uint32[2]

    Raises: DtypeError for a seed that is no integer, OverflowError for one of more than 64 bits.
    Source: JAX's random.key, whose words these are (with jax_enable_x64); here a key is the array of them.

    >>> import tracejit as tj
    >>> tj.random.key(42)
    array([ 0, 42], dtype=uint32)
    """
    _check_impl("key", impl)
    if type(seed) is bool:
        seed = int(seed)
    if type(seed) is int:
        if not -(2**63) <= seed < 2**63:
            raise NumberOutOfBounds(
                f"tj.random.key: seed {seed} does not fit 64 bits with their sign", location=user_location()
            )
        return np.array([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)
    x = operand(seed)
    if aval(x).dtype.kind not in "iu":
        raise DtypeError(f"tj.random.key: a seed is an integer, not {aval(x)}", location=user_location())
    if aval(x).shape:
        raise reject(f"tj.random.key: a seed is one integer, not {aval(x)}; use tj.vmap for several")
    low = convert(x, np.uint32)
    high: Any = np.uint32(0)
    if aval(x).dtype.itemsize == 8:
        high = convert(bind(ShiftRight(), convert(x, np.uint64), np.uint64(32)), np.uint32)
    return concatenate([reshape(high, (1,)), reshape(low, (1,))], 0)


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Result:
    """The same as `key`: here, keys are arrays in any case.

    >>> import tracejit as tj
    >>> tj.random.PRNGKey(-1)
    array([4294967295, 4294967295], dtype=uint32)
    """
    return key(seed, impl=impl)


def split(key: ArrayLike, num: ShapeLike = 2) -> Result:
    """New keys from one: `num` of them, or an array of them of shape `num`.   -> uint32[*num, 2]

    Raises: DtypeError, ShapeError for what is no key.

    >>> import tracejit as tj
    >>> one, other = tj.random.split(tj.random.key(42))
    >>> other
    array([  64467757, 2916123636], dtype=uint32)
    """
    shape = as_shape(num)
    first, second = blocks(words_of("split", key), prod(shape))
    pairs = [reshape(x, (*shape, 1)) for x in (first, second)]
    return concatenate(pairs, len(shape))


def fold_in(key: ArrayLike, data: ArrayLike) -> Result:
    """A new key from a key and an integer, which may be the index of a loop.   -> uint32[2]

    data: 32 bits of it count.
    Raises: DtypeError for data that are no integer, OverflowError for a Python integer outside of 0 to 2**32 - 1.

    >>> import tracejit as tj
    >>> tj.random.fold_in(tj.random.key(42), 7)
    array([2547012911, 1371500959], dtype=uint32)
    """
    words = words_of("fold_in", key)
    if type(data) is bool:
        data = int(data)
    if type(data) is int and not 0 <= data < 2**32:
        raise NumberOutOfBounds(
            f"tj.random.fold_in: {data} is outside of the 32 bits that are folded in", location=user_location()
        )
    x = integers("fold_in", data)
    if aval(x).shape:
        raise reject(f"tj.random.fold_in: one integer is folded in, not {aval(x)}; use tj.vmap for several")
    first, second = bind(Threefry2x32(), *words, np.uint32(0), convert(x, np.uint32))
    return concatenate([reshape(first, (1,)), reshape(second, (1,))], 0)


def key_data(keys: ArrayLike) -> Result:
    """The words of keys: here what keys are.   uint32[..., 2] -> the same

    >>> import tracejit as tj
    >>> tj.random.key_data(tj.random.key(3))
    array([0, 3], dtype=uint32)
    """
    return _checked("key_data", keys)


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None) -> Result:
    """Keys from their words.   uint32[..., 2] -> the same

    Raises: DtypeError, ShapeError for what are no words of keys.

    >>> import numpy as np, tracejit as tj
    >>> tj.random.wrap_key_data(np.array([0, 3], np.uint32))
    array([0, 3], dtype=uint32)
    """
    _check_impl("wrap_key_data", impl)
    return _checked("wrap_key_data", key_bits_array)


def clone(key: ArrayLike) -> Result:
    """A copy of a key, which gives the same numbers.

    >>> import tracejit as tj
    >>> tj.random.clone(tj.random.key(3))
    array([0, 3], dtype=uint32)
    """
    return _checked("clone", key)


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator: "threefry2x32".

    >>> import tracejit as tj
    >>> tj.random.key_impl(tj.random.key(3))
    'threefry2x32'
    """
    _checked("key_impl", keys)
    return "threefry2x32"


def _checked(name: str, keys: ArrayLike) -> Result:
    x = operand(keys)
    if aval(x).dtype != np.uint32:
        raise DtypeError(f"tj.random.{name}: keys are uint32, not {aval(x)}", location=user_location())
    if not aval(x).shape or aval(x).shape[-1] != 2:
        raise reject(f"tj.random.{name}: the last axis of keys has two words, not as {aval(x)}")
    return np.array(x) if isinstance(x, np.ndarray) else x


def _check_impl(name: str, impl: Any) -> None:
    if impl not in _NAMES:
        raise OptionError(
            f"tj.random.{name}: impl={impl!r} is not to be had; there is 'threefry2x32'", location=user_location()
        )
