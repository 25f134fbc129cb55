"""What decompositions share whose factors the matrix alone does not determine: they have no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.ir.extents import Extent
from tracejit.ir.primitive import Primitive
from tracejit.support.errors import UnsupportedError
from tracejit.support.nodes import frozen
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.batch import of_stacks
from tracejit.tracer.interpreter import bind

__all__ = ["Undetermined"]


@frozen(eq=False)
class Undetermined(Primitive):
    """A decomposition of matrices [.., n, n] into several results.  `what` is its name in the error of a derivative."""

    multiple_results = True
    what = "this decomposition"

    def jvp(self, primals: Sequence[ArrayLike], tangents: Sequence[ArrayLike]) -> tuple[Any, Any]:
        if tangents[0] is not None:
            raise UnsupportedError(
                f"{self.what} has no derivative with respect to the matrix: its factors are not determined by the "
                "matrix alone; differentiate what is made of them (eig, sqrtm, solve_sylvester, expm)"
            )
        outs = list(bind(self, *primals))
        return outs, [None] * len(outs)

    def batch(
        self, args: Sequence[ArrayLike], dims: Sequence[int | None], size: Extent
    ) -> tuple[list[Result], Sequence[int]]:
        return of_stacks(self, args[0], dims[0])
