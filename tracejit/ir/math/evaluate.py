"""Expansions run by NumPy, on whole arrays: the executable meaning of functions that NumPy has not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.math.term import Term
from tracejit.ir.scalar import OPS, kernel_dtype, numpy_dtype
from tracejit.support.nodes import frozen

__all__ = ["evaluate", "evaluate_as_given", "evaluate_complex"]


@frozen(eq=False)
class _Evaluated:
    """An operand: an array and its kernel dtype."""

    array: Any
    dtype: str


class _Evaluator:
    """A `ScalarBuilder` that computes at once; branches are selections, loops go on until all elements are done."""

    def op(self, name: str, *args: _Evaluated, dtype: str | None = None) -> _Evaluated:
        row = OPS[name]
        result = dtype or ("bool" if row.result == "bool" else args[-1].dtype)
        return _Evaluated(np.asarray(row.impl(numpy_dtype(result), *[a.array for a in args])), result)

    def const(self, value: Any, dtype: str) -> _Evaluated:
        return _Evaluated(np.asarray(value, numpy_dtype(dtype)), dtype)

    def rare(self, condition: _Evaluated, then: Callable[[], _Evaluated], otherwise: _Evaluated) -> _Evaluated:
        return self.op("select", condition, then(), otherwise) if np.any(condition.array) else otherwise

    def branch(
        self,
        condition: _Evaluated,
        then: Callable[[], Sequence[_Evaluated]],
        otherwise: Callable[[], Sequence[_Evaluated]],
    ) -> Sequence[_Evaluated]:
        pairs = zip(then(), otherwise(), strict=True)
        return [self.op("select", condition, yes, no) for yes, no in pairs]

    def while_loop(
        self,
        inits: Sequence[_Evaluated],
        test: Callable[[Sequence[_Evaluated]], _Evaluated],
        body: Callable[[Sequence[_Evaluated]], Sequence[_Evaluated]],
    ) -> Sequence[_Evaluated]:
        values = list(inits)
        while np.any((going := test(values)).array):
            values = [self.op("select", going, new, old) for new, old in zip(body(values), values, strict=True)]
        return values


def evaluate(function: Callable[..., Term], dtype: Any, *args: Any) -> Any:
    """`function` of terms, on arrays of one floating-point dtype; float16 is computed in float32 and rounded once."""
    kept = np.dtype(dtype)
    wide = np.dtype(np.float32) if kept == np.float16 else kept
    arrays = np.broadcast_arrays(*[np.asarray(a) for a in args])
    builder = _Evaluator()
    terms = [Term(builder, _Evaluated(a.astype(wide), kernel_dtype(wide))) for a in arrays]
    with np.errstate(all="ignore"):
        result = np.asarray(function(*terms).operand.array).astype(kept)
    return np.broadcast_to(result, arrays[0].shape).copy()


def evaluate_complex(function: Callable[[tuple[Term, Term]], tuple[Term, Term]], z: Any) -> Any:
    """`function` of the two parts of complex numbers, in their precision."""
    given, builder = np.asarray(z), _Evaluator()
    x, y = np.real(given), np.imag(given)
    dtype = kernel_dtype(x.dtype)
    with np.errstate(all="ignore"):
        found = function((Term(builder, _Evaluated(x, dtype)), Term(builder, _Evaluated(y, dtype))))
    real, imaginary = (np.asarray(part.operand.array) for part in found)
    out = np.empty(given.shape, given.dtype)
    out.real, out.imag = real, imaginary
    return out


def evaluate_as_given(function: Callable[..., Term], *args: Any) -> Any:
    """`function` of terms on arrays of any dtypes; float16 is float32 in between, and that of the last array the
    result's.
    """
    arrays = np.broadcast_arrays(*[np.asarray(a) for a in args])
    wide = [a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays]
    builder = _Evaluator()
    with np.errstate(all="ignore"):
        made = function(*[Term(builder, _Evaluated(a, kernel_dtype(a.dtype))) for a in wide])
        result = np.asarray(made.operand.array).astype(arrays[-1].dtype)
    return np.broadcast_to(result, arrays[0].shape).copy()
