"""Distributions of whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracejit.primitives.arithmetic import Floor, Minimum
from tracejit.primitives.elementwise import add, convert, div, neg, one_like
from tracejit.primitives.random import RandomBinomial, RandomPoisson
from tracejit.primitives.transcendental import Log1p
from tracejit.random.keys import split
from tracejit.random.operands import as_shape, default_int, element_words, float_dtype, floats, own_float, parameters
from tracejit.random.uniforms import unit
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError, ShapeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike
from tracejit.tracer.interpreter import bind

__all__ = ["binomial", "geometric", "multinomial", "poisson"]


def poisson(key: ArrayLike, lam: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """Counts of the Poisson distribution of mean lam.   -> dtype[*shape], by default lam's shape

    dtype: int64 where none is given.  -1 for a negative lam and for NaN.
    Raises: DtypeError for a dtype that is no integer's, ShapeError for lam that does not fit the shape.
    Source: below 10 by adding up probabilities; from there on Hörmann, The transformed rejection method for generating
    Poisson random variables, 1993.  The numbers are not JAX's.

    >>> import tracejit as tj
    >>> x = tj.random.poisson(tj.random.key(42), 3.0, (10_000,))
    >>> x.dtype, bool(abs(x.mean() - 3.0) < 0.05)
    (dtype('int64'), True)
    """
    kind = _count("poisson", dtype)
    own = _at_least_single(own_float(lam))
    out, (mean,) = parameters("poisson", shape, own, lam)
    return _whole(bind(RandomPoisson(), *element_words("poisson", key, out), mean), kind)


def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None
) -> Result:
    """How many of n trials succeed, each with probability p.   -> dtype[*shape], by default the parameters' shape

    dtype: a float's, as in JAX; float64 where none is given.  NaN for p outside of [0, 1] and for a negative n.
    Raises: ShapeError for parameters that do not fit the shape.
    Source: up to a mean of 10 by adding up probabilities; else Hörmann, The generation of binomial random variates,
    1993.  The numbers are not JAX's.

    >>> import tracejit as tj
    >>> x = tj.random.binomial(tj.random.key(42), 10, 0.25, (10_000,))
    >>> bool(abs(x.mean() - 2.5) < 0.05)
    True
    """
    kind = float_dtype("binomial", dtype)
    own = _at_least_single(kind)
    out, (trials, chance) = parameters("binomial", shape, own, n, p)
    return convert(bind(RandomBinomial(), *element_words("binomial", key, out), trials, chance), kind)


def geometric(key: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = None) -> Result:
    """How many trials it takes to the first success, each of probability p.   -> dtype[*shape], by default p's shape

    dtype: int64 where none is given.
    Raises: DtypeError for a dtype that is no integer's, ShapeError for p that does not fit the shape.

    >>> import tracejit as tj
    >>> x = tj.random.geometric(tj.random.key(42), 0.25, (10_000,))
    >>> int(x.min()), bool(abs(x.mean() - 4.0) < 0.1)
    (1, True)
    """
    kind = _count("geometric", dtype)
    own = own_float(p)
    out, (chance,) = parameters("geometric", shape, own, p)
    u = unit("geometric", key, out, own)
    tries = bind(Floor(), div(bind(Log1p(), neg(u)), bind(Log1p(), neg(chance))))
    return _whole(add(tries, one_like(tries)), kind)


def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = None,
    unroll: int | bool = 1,
) -> Result:
    """How often each of k outcomes comes in n trials, of probabilities p.   p: float[.., k] -> dtype[*shape, k], by
    default of the shape that n and p[.., 0] have together

    The probabilities count relative to their sum.  dtype: a float's, as in JAX; float64 where none is given.  unroll:
    changes nothing.
    Raises: ShapeError for parameters that do not fit the shape, and a p of rank 0.
    Source: a binomial number of the trials that are left, outcome by outcome.  The numbers are not JAX's.

    >>> import numpy as np, tracejit as tj
    >>> x = tj.random.multinomial(tj.random.key(42), 100, np.array([0.2, 0.3, 0.5]), shape=(1000,))
    >>> x.shape, bool((x.sum(-1) == 100).all()), (x.mean(0) / 100).round(1)
    ((1000, 3), True, array([0.2, 0.3, 0.5]))
    """
    kind = float_dtype("multinomial", dtype)
    own = _at_least_single(kind)
    chances = floats(p, own)
    have = np.shape(chances)
    if not have:
        raise ShapeError(
            "tj.random.multinomial: p is a number; its last axis is that of outcomes", location=user_location()
        )
    trials = floats(n, own)
    out = np.broadcast_shapes(np.shape(trials), have[:-1]) if shape is None else as_shape(shape)
    whole: Any = out
    left, rest = np.broadcast_to(trials, whole), np.sum(chances, axis=-1)
    keys = split(key, int(have[-1]))
    counts: list[Any] = []
    for k in range(int(have[-1]) - 1):
        chance = chances[..., k]
        # rounding may leave nothing, or less, to the last outcomes
        ratio = np.where(rest > 0, np.clip(chance / np.where(rest > 0, rest, 1), 0, 1), 0)
        count = binomial(keys[k], left, ratio, out, own)
        counts.append(count)
        left, rest = left - count, rest - chance
    return np.stack([*counts, left], axis=-1).astype(kind)


def _count(name: str, dtype: DTypeLike) -> np.dtype[Any]:
    kind = default_int() if dtype is None else canonical(dtype)
    if kind.kind not in "iu":
        raise DtypeError(f"tj.random.{name} gives integers, not {kind}", location=user_location())
    return kind


def _at_least_single(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float16 counts to 2,048 only."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _whole(x: ArrayLike, dtype: np.dtype[Any]) -> Result:
    """A float without fraction as an integer, at most the greatest."""
    kind = np.dtype(x.dtype)
    most = kind.type(np.iinfo(dtype).max)
    if int(most) > np.iinfo(dtype).max:
        most = np.nextafter(most, kind.type(0))
    return convert(bind(Minimum(), x, most), dtype)
