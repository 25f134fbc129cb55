"""Permutations and choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracejit.api import control
from tracejit.ir.extents import Extent, is_empty, prod
from tracejit.primitives.creation import extent_value, full, iota
from tracejit.primitives.elementwise import add, convert, neg
from tracejit.primitives.shape import reshape
from tracejit.primitives.sorting import sort
from tracejit.primitives.transcendental import Log
from tracejit.random.continuous import gumbels
from tracejit.random.keys import split
from tracejit.random.operands import (
    as_shape,
    aval,
    default_int,
    floats,
    known_integer,
    operand,
    own_float,
    reject,
    shape_for,
)
from tracejit.random.uniforms import randint, unit, words
from tracejit.support.axes import axis_index
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind
from tracejit.tracer.tracer import extent_of

__all__ = ["categorical", "choice", "permutation"]

_WORD = np.dtype(np.uint32)
_ROUNDS = (0, *[math.floor((2**32 - 1) ** (n / 3)) + 1 for n in (1, 2)])
"""From how many elements on they are sorted once, twice, three times: words of 32 bits may be equal, and so often that
decides no more.
"""


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Result:
    """An array with its parts along an axis in random order, or the integers below x.   -> like x, or int64[x]

    independent: each line along the axis in an order of its own.
    Sorted by random words, once, twice from 1,626 elements on, three times from 2,642,246 on.
    Raises: DtypeError for a number that is no integer, ShapeError for an axis that is not there.
    Source: JAX's random.permutation, whose orders these are.

    >>> import tracejit as tj
    >>> tj.random.permutation(tj.random.key(42), 5)
    array([4, 2, 3, 0, 1])
    """
    array = operand(x)
    have = aval(array)
    if not have.shape:
        if have.dtype.kind not in "iu":
            raise DtypeError(
                "tj.random.permutation takes an integer or an array with an axis at least", location=user_location()
            )
        k = axis_index(axis, 1)
        return _shuffled(key, iota((_count(x),), 0, default_int()), k)
    k = axis_index(axis, have.ndim)
    if independent or have.ndim == 1:
        return _shuffled(key, array, k)
    places = _shuffled(key, iota((have.shape[k],), 0, np.int64), 0)
    return np.take(array, places, k)


def _count(x: ArrayLike) -> Extent:
    """A number of elements, which has to be known."""
    return as_shape(extent_of(x))[0]


def _shuffled(key: ArrayLike, x: Result, axis: int) -> Result:
    shape = aval(x).shape
    size = prod(shape)
    for least in _ROUNDS:
        key, part = split(key)

        def sorted_again(y: Result, part: Result = part) -> Result:
            return sort([words(part, shape, _WORD, "permutation"), y], axis)[1]

        if not isinstance(size, int):
            number = extent_value(size, np.int64)
            x = control.cond(number >= least, sorted_again, lambda y: y, x) if least else sorted_again(x)
        elif size >= least:
            x = sorted_again(x)
    return x


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike = None,
    axis: int = 0,
    mode: str | None = None,
) -> Result:
    """Elements of an array along an axis, or integers below a.   -> a's dtype[..., *shape, ...]

    replace: whether one may come more than once.   p: the probability of each; by default all are the same.
    mode: "high" takes twice the bits, where p is given and `replace` is not.
    Raises: ShapeError where there are too few, none at all, or p has another length.
    Source: JAX's random.choice.

    >>> import numpy as np, tracejit as tj
    >>> tj.random.choice(tj.random.key(42), 10, (4,), replace=False)
    array([7, 4, 2, 5])
    >>> tj.random.choice(tj.random.key(42), np.array([1.5, 2.5]), (3,), p=np.array([0.0, 1.0]))
    array([2.5, 2.5, 2.5])
    """
    array = operand(a)
    have = aval(array)
    count = have.shape[axis_index(axis, have.ndim)] if have.shape else _count(a)
    k = axis_index(axis, have.ndim) if have.shape else 0
    out = as_shape(shape)
    draws = prod(out)
    whole = (*have.shape[:k], *out, *have.shape[k + 1 :])
    if isinstance(draws, int) and draws == 0:
        return full(whole, have.dtype.type(0))
    if is_empty(count):
        raise reject("tj.random.choice: there is nothing to choose from")
    if not replace and isinstance(draws, int) and isinstance(count, int) and draws > count:
        raise reject(f"tj.random.choice: {draws} different ones of {count} are too many; replace=True repeats them")
    places = _places(key, count, out, draws, replace, p, mode, have.ndim > 1)
    if places is None:
        return reshape(permutation(key, a, axis)[(*[slice(None)] * k, slice(draws))], whole)
    if not have.shape:
        return convert(reshape(places, out), default_int())
    return reshape(np.take(array, reshape(places, (draws,)), k), whole)


def _places(
    key: ArrayLike,
    count: Extent,
    out: Any,
    draws: Extent,
    replace: bool,
    p: ArrayLike,
    mode: str | None,
    rows: bool,
) -> Result | None:
    """Which elements are chosen; None for the first of a permutation."""
    if p is None:
        if not replace:
            return None
        number = count if isinstance(count, int) else operand(count)
        return randint(key, out, 0, number, np.int64)
    chances = floats(p, own_float(p))
    if aval(chances).ndim != 1 or aval(chances).shape[0] != count:
        raise reject(f"tj.random.choice: p is one probability for each of {count} elements, not {aval(chances)}")
    if not replace:
        worth = add(gumbels("choice", key, (count,), chances.dtype, mode), bind(Log(), chances))
        return sort([neg(worth), iota((count,), 0, np.int64)], 0)[1][:draws]
    sums = np.cumsum(chances)
    u = unit("choice", key, out, chances.dtype)
    wanted = sums[-1] * (1 - u)
    below = np.expand_dims(wanted, -1) > sums
    return np.sum(below, axis=-1)


def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Result:
    """Places along an axis, with probabilities in proportion to exp(logits).   -> int64[*shape]

    shape: that of logits without the axis, which further axes may stand before; without `replace` these hold different
    places.   mode: "high" takes twice the bits, for improbable places.
    Raises: ShapeError for a shape or axis that does not fit, or where there are too few places.
    Source: JAX's random.categorical; with replacement the places are JAX's up to the rounding of logarithms.

    >>> import numpy as np, tracejit as tj
    >>> tj.random.categorical(tj.random.key(42), np.log(np.array([0.1, 0.9])), shape=(5,))
    array([1, 1, 1, 1, 1])
    """
    scores = floats(logits, own_float(logits))
    have = aval(scores)
    if not have.shape:
        raise reject("tj.random.categorical: logits have an axis at least")
    k = axis_index(axis, have.ndim)
    rest = (*have.shape[:k], *have.shape[k + 1 :])
    out = shape_for("categorical", shape, rest)
    lead = out[: len(out) - len(rest)]
    if replace:
        inner = out[len(lead) :]
        noise = gumbels("categorical", key, (*lead, *inner[:k], have.shape[k], *inner[k:]), have.dtype, mode)
        return np.argmax(noise + scores, axis=k - have.ndim)
    if any(a is not b and a != b for a, b in zip(out[len(lead) :], rest, strict=True)):
        raise reject("tj.random.categorical: without replacement, the shape ends in that of the logits")
    number = known_integer("categorical", "the number of places to choose", prod(lead))
    most = have.shape[k]
    if isinstance(most, int) and number > most:
        raise reject(f"tj.random.categorical: {number} different places of {most} are too many")
    worth = neg(add(scores, gumbels("categorical", key, have.shape, have.dtype, mode)))
    order = np.moveaxis(sort([worth, iota(have.shape, k, np.int64)], k)[1], k, 0)[:number]
    return reshape(order, out)
