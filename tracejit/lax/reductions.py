"""Reductions, running folds and extrema's places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.lax.operands import array, aval
from tracejit.lax.windows import reduce
from tracejit.primitives import reduction as p
from tracejit.primitives.comparison import And, Or, Xor
from tracejit.primitives.cumulative import cumulative
from tracejit.primitives.elementwise import convert
from tracejit.support.axes import axis_index
from tracejit.support.dtypes import canonical
from tracejit.support.errors import DtypeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.interpreter import bind

__all__ = [
    "argmax", "argmin", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce_and", "reduce_max",
    "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor",
]  # fmt: skip


def _reduction(name: str, fold: Callable[..., Any]) -> Callable[..., Any]:
    def function(operand: ArrayLike, axes: Sequence[int], *, out_sharding: None = None) -> Result:
        x = array(operand)
        return fold(x, tuple(sorted(axis_index(a, aval(x).ndim) for a in axes)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name.removeprefix('reduce_')} over `axes`, which are dropped."
    return function


def _of_bits(name: str, primitive: Any, start: int, of_truths: Callable[..., Any] | None) -> Callable[..., Any]:
    def function(operand: ArrayLike, axes: Sequence[int]) -> Result:
        x = array(operand)
        dtype = aval(x).dtype
        if dtype.kind not in "biu":
            raise DtypeError(f"[{name}] takes bool and integers, not {aval(x)}", location=user_location())
        kept = tuple(sorted(axis_index(a, aval(x).ndim) for a in axes))
        if dtype == np.bool_ and of_truths is not None:
            return of_truths(x, kept)
        first = np.array(start).astype(dtype)[()]
        return reduce(x, first, lambda a, b: bind(primitive, a, b), kept)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Bitwise {name.removeprefix("reduce_")} over `axes`, which are dropped, of bool or integers.

    Raises: DtypeError for other dtypes.   Source: JAX's lax.{name}.
    """
    return function


reduce_sum = _reduction("reduce_sum", p.reduce_sum)
reduce_prod = _reduction("reduce_prod", p.reduce_prod)
reduce_max = _reduction("reduce_max", p.reduce_max)
reduce_min = _reduction("reduce_min", p.reduce_min)
reduce_and = _of_bits("reduce_and", And(), -1, p.reduce_min)
reduce_or = _of_bits("reduce_or", Or(), 0, p.reduce_max)
reduce_xor = _of_bits("reduce_xor", Xor(), 0, None)


def _running(name: str) -> Callable[..., Any]:
    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Result:
        x = array(operand)
        return cumulative(name, x, axis_index(axis, aval(x).ndim), reverse)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The running {name.removeprefix('cum')} along an axis, from its end with `reverse`."
    return function


cumsum, cumprod, cummax, cummin = (_running(name) for name in ("cumsum", "cumprod", "cummax", "cummin"))


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Result:
    """The running log(sum(exp(x))) along an axis, from its end with `reverse`, without overflow.

    Raises: DtypeError for integers.

    >>> import numpy as np, tracejit as tj
    >>> np.exp(tj.lax.cumlogsumexp(np.log(np.array([1.0, 2.0, 3.0])))).round(12)
    array([1., 3., 6.])
    """
    x = array(operand)
    return cumulative("cumlogsumexp", x, axis_index(axis, aval(x).ndim), reverse)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike = np.int64) -> Result:
    """The place of the first maximum along an axis."""
    x = array(operand)
    return convert(bind(p.ArgMax(axis_index(axis, aval(x).ndim)), x), canonical(index_dtype))


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike = np.int64) -> Result:
    """The place of the first minimum along an axis."""
    x = array(operand)
    return convert(bind(p.ArgMin(axis_index(axis, aval(x).ndim)), x), canonical(index_dtype))
