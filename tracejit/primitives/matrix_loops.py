"""What the rules of decompositions are written with: loops whose index is a symbol of extents, products, triangles.

Matrices lie in the last two axes; what is in front of them is walked matrix by matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.ir.extents import Dim, Extent, Index, Shape, index_number, is_empty, prod
from tracejit.ir.jaxpr import symbols_of
from tracejit.ir.types import ShapedArray
from tracejit.primitives.arithmetic import Abs
from tracejit.primitives.comparison import And, Eq, Ge, Gt, Lt, Or
from tracejit.primitives.complex_numbers import conj, imag, make_complex, real
from tracejit.primitives.contraction import dot_general
from tracejit.primitives.control_flow import staged_body
from tracejit.primitives.counted_loop import Loop
from tracejit.primitives.creation import iota
from tracejit.primitives.elementwise import add, convert, div, mul, neg, select, sub
from tracejit.primitives.indexing import gather, scatter
from tracejit.primitives.reduction import ArgMax, reduce_max, reduce_sum
from tracejit.primitives.shape import broadcast_in_dim, reshape, slice_array, transpose
from tracejit.primitives.slicing import dynamic_slice, dynamic_update_slice, update_slice
from tracejit.primitives.while_loop import While
from tracejit.support.dtypes import real_dtype
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.transpose import shape_of

__all__ = [
    "adjoint", "column_of", "diagonal_of", "dtype_of", "each_matrix", "element", "elements_of", "eye_like",
    "from_elements", "greatest_of_rows", "index_loop", "is_complex", "is_stack_of_small", "less_products", "like",
    "lower_part", "mirrored", "order_of", "part_dtype", "product", "put", "put_column", "put_row", "rotated",
    "row_of", "safe_factor", "scaled_columns", "scaled_rows", "size_of", "some_row", "squared", "swapped",
    "upper_part", "upright_rows", "while_loop", "with_element", "with_row", "without_turns", "zeros",
]  # fmt: skip

UNROLLED = 4
"""Iterations up to which a loop is written out."""
SMALL = 8
"""Rows up to which matrices of a stack are worked on together, element by element."""
_FIRST_INDEX = 1_000_000
"""Numbers of indices from here on are those of rules: no loop of a user's has so many around it."""


def dtype_of(x: ArrayLike) -> np.dtype[Any]:
    """The dtype of an operand."""
    return aval_of_argument(x).dtype


def is_complex(x: ArrayLike) -> bool:
    """Whether an operand is of complex numbers."""
    return dtype_of(x).kind == "c"


def part_dtype(x: ArrayLike) -> np.dtype[Any]:
    """The dtype of an operand's real part."""
    return real_dtype(dtype_of(x)) if is_complex(x) else dtype_of(x)


def like(x: ArrayLike, y: ArrayLike) -> Result:
    """Real numbers in the dtype of y, which may be complex."""
    return convert(x, dtype_of(y)) if dtype_of(x) != dtype_of(y) else x


def zeros(shape: Shape, dtype: np.dtype[Any]) -> Result:
    """An array of zeros."""
    return broadcast_in_dim(dtype.type(0), shape, ())


def index_loop(
    count: Extent,
    body: Callable[..., Sequence[Any]],
    carries: Sequence[ArrayLike],
    consts: Sequence[ArrayLike] = (),
    level: int = 0,
) -> list[Result]:
    """`for k in range(count): carries = body(k, i, consts, carries)`, k the index as an extent, i as an int64.

    level: how many such loops are around this one.
    """
    if isinstance(count, int) and count <= 1:
        return list(body(0, np.int64(0), consts, list(carries))) if count == 1 else list(carries)
    if isinstance(count, int) and count <= UNROLLED:
        state = list(carries)
        for k in range(count):
            state = list(body(k, np.int64(k), consts, state))
        return state
    index = Index(_first_free(count, [*carries, *consts]) + level, count - 1)
    k = Dim.symbol(index)
    nk = len(consts)

    def flat(*args: ArrayLike) -> Sequence[Result]:
        return body(k, args[nk], args[:nk], list(args[nk + 1 :]))

    avals = [aval_of_argument(x).strong() for x in (*consts, *carries)]
    jaxpr = staged_body(flat, [*avals[:nk], ShapedArray((), np.int64), *avals[nk:]], "loop")
    used = index if index in symbols_of(jaxpr) else None
    return list(bind(Loop(jaxpr, count, nk, len(carries), False, used), *consts, *carries))


def while_loop(
    test: Callable[..., Any],
    body: Callable[..., Sequence[Any]],
    carries: Sequence[ArrayLike],
    consts: Sequence[ArrayLike] = (),
) -> list[Result]:
    """`while test(*consts, *carries): carries = body(*consts, *carries)`."""
    avals = [aval_of_argument(x).strong() for x in (*consts, *carries)]
    condition = staged_body(lambda *xs: [test(*xs)], avals, "while")
    step = staged_body(lambda *xs: list(body(*xs)), avals, "while")
    return list(bind(While(condition, step, len(consts), len(consts)), *consts, *consts, *carries))


def _first_free(count: Extent, arrays: Sequence[ArrayLike]) -> int:
    """A number of an index beyond those in the extents that it meets."""
    extents = [count, *[n for x in arrays for n in shape_of(x)]]
    symbols = [s for n in extents if isinstance(n, Dim) for s in n.symbols() if isinstance(s, Index)]
    return max([_FIRST_INDEX, *[index_number(s) + 1 for s in symbols]])


def each_matrix(function: Callable[..., Sequence[Any]], *arrays: ArrayLike, ranks: Sequence[int]) -> Sequence[Result]:
    """`function` of each matrix along the leading axes; ranks: how many axes of each operand are the matrix's."""
    lead = shape_of(arrays[0])[: len(shape_of(arrays[0])) - ranks[0]]
    if not lead:
        return function(*arrays)
    total = prod(lead)
    inner = [shape_of(x)[len(lead) :] for x in arrays]
    if isinstance(total, int) and total == 1:
        outs = function(*[reshape(x, s) for x, s in zip(arrays, inner, strict=True)])
        return [reshape(o, (*lead, *shape_of(o))) for o in outs]

    def body(_: ArrayLike, *xs: ArrayLike) -> Sequence[Result]:
        return list(function(*xs))

    avals = [ShapedArray(s, dtype_of(x)) for x, s in zip(arrays, inner, strict=True)]
    jaxpr = staged_body(body, [ShapedArray((), np.int64), *avals], "loop")
    flat = [reshape(x, (total, *s)) for x, s in zip(arrays, inner, strict=True)]
    outs = bind(Loop(jaxpr, total, 0, 0), *flat)
    return [reshape(o, (*lead, *shape_of(o)[1:])) for o in outs]


# -- parts of one matrix -----------------------------------------------------------------------------------------------
def row_of(x: ArrayLike, i: Extent, start: Extent = 0, size: Extent | None = None) -> Result:
    """Elements of row i from column `start` on."""
    n = shape_of(x)[1] - start if size is None else size
    return reshape(slice_array(x, (i, start), (1, n)), (n,))


def column_of(x: ArrayLike, j: Extent, start: Extent = 0, size: Extent | None = None) -> Result:
    """Elements of column j from row `start` on."""
    m = shape_of(x)[0] - start if size is None else size
    return reshape(slice_array(x, (start, j), (m, 1)), (m,))


def put(x: ArrayLike, value: ArrayLike, i: Extent, j: Extent) -> Result:
    """The matrix with a block, or one number, written at (i, j)."""
    return update_slice(x, value if len(shape_of(value)) == 2 else reshape(value, (1, 1)), (i, j))


def put_row(x: ArrayLike, row: ArrayLike, i: Extent, start: Extent = 0) -> Result:
    """The matrix with elements of row i from `start` on replaced."""
    return update_slice(x, reshape(row, (1, *shape_of(row))), (i, start))


def put_column(x: ArrayLike, column: ArrayLike, j: Extent, start: Extent = 0) -> Result:
    """The matrix with elements of column j from `start` on replaced."""
    return update_slice(x, reshape(column, (*shape_of(column), 1)), (start, j))


def element(x: ArrayLike, *at: ArrayLike) -> Result:
    """The number at computed indices."""
    return reshape(dynamic_slice(x, at, (1,) * len(at)), ())


def some_row(x: ArrayLike, i: ArrayLike) -> Result:
    """The row at a computed index."""
    n = shape_of(x)[1]
    return reshape(dynamic_slice(x, (i, np.int64(0)), (1, n)), (n,))


def with_row(x: ArrayLike, row: ArrayLike, i: ArrayLike) -> Result:
    """The matrix with the row at a computed index replaced."""
    return dynamic_update_slice(x, reshape(row, (1, *shape_of(row))), (i, np.int64(0)))


def with_element(x: ArrayLike, value: ArrayLike, *at: ArrayLike) -> Result:
    """The array with one number replaced."""
    return dynamic_update_slice(x, reshape(value, (1,) * len(at)), at)


def order_of(x: ArrayLike, descending: bool = False) -> Result:
    """The indices that put a vector in order; of equal elements the first comes first."""
    (n,) = shape_of(x)
    mine, other = broadcast_in_dim(x, (n, n), (0,)), broadcast_in_dim(x, (n, n), (1,))
    i, j = iota((n, n), 0, np.int64), iota((n, n), 1, np.int64)
    before = bind(Gt() if descending else Lt(), other, mine)
    before = bind(Or(), before, bind(And(), bind(Eq(), other, mine), bind(Lt(), j, i)))
    place = reduce_sum(convert(before, np.int64), (1,))
    at = iota((n,), 0, np.int64)
    return scatter(zeros((n,), np.dtype(np.int64)), at, (0,), [place], "set")


def squared(x: ArrayLike) -> Result:
    """The squares of magnitudes, which are real."""
    if not is_complex(x):
        return mul(x, x)
    re, im = real(x), imag(x)
    return add(mul(re, re), mul(im, im))


def size_of(x: ArrayLike) -> Result:
    """Magnitudes; of complex numbers the sums of those of their parts, as LAPACK compares them."""
    if not is_complex(x):
        return bind(Abs(), x)
    return add(bind(Abs(), real(x)), bind(Abs(), imag(x)))


def rotated(x: ArrayLike, y: ArrayLike, cosine: ArrayLike, sine: ArrayLike) -> tuple[Result, Result]:
    """Vectors turned in their plane: (c x - s y, s x + c y)."""
    c, s = (broadcast_in_dim(like(k, x), shape_of(x), ()) for k in (cosine, sine))
    return sub(mul(c, x), mul(s, y)), add(mul(s, x), mul(c, y))


def safe_factor(x: ArrayLike) -> Result:
    """The power of two by which a matrix is multiplied so that squares of its elements neither overflow nor
    vanish; 1 for most matrices.  It is real.
    """
    dtype = part_dtype(x)
    if any(is_empty(n) for n in shape_of(x)):
        return dtype.type(1)
    limit, steps = (2.0**400, 700) if dtype == np.float64 else (2.0**40, 80)
    most = reduce_max(size_of(x), (0, 1))
    up = select(bind(Lt(), most, dtype.type(1 / limit)), dtype.type(2.0**steps), dtype.type(1))
    return select(bind(Gt(), most, dtype.type(limit)), dtype.type(2.0**-steps), up)


def upright_rows(x: ArrayLike) -> Result:
    """For each row of matrices the number of magnitude 1 (1 or -1 for real ones) which makes its element of greatest
    magnitude positive.
    """
    shape = shape_of(x)
    dtype = dtype_of(x)
    if is_empty(shape[-1]):
        return zeros(shape[:-1], dtype)
    found = greatest_of_rows(x, [x])[0]
    one = broadcast_in_dim(dtype.type(1), shape[:-1], ())
    none = zeros(shape[:-1], dtype)
    if not is_complex(x):
        return select(bind(Lt(), found, none), neg(one), one)
    nothing = bind(Eq(), found, none)
    length = bind(Abs(), select(nothing, one, found))
    parts = [div(y, length) for y in (real(found), neg(imag(found)))]
    return select(nothing, one, make_complex(*parts))


def greatest_of_rows(x: ArrayLike, ys: Sequence[ArrayLike]) -> list[Result]:
    """Of each row of the matrices ys the element at the place where that of x has its greatest magnitude."""
    shape = shape_of(x)
    rank = len(shape)
    place = bind(ArgMax(rank - 1), bind(Abs(), x))
    at = [iota(shape[:-1], d, np.int64) for d in range(rank - 1)]
    return [gather(y, tuple(range(rank)), [*at, place]) for y in ys]


def without_turns(vectors: ArrayLike, slopes: ArrayLike) -> Result:
    """What is to be subtracted of the derivatives of vectors, as multiples of these, so that the element of greatest
    magnitude stays real; the vectors are rows.   [.., k, n], [.., k, n] -> [.., k], imaginary numbers
    """
    found, slope = greatest_of_rows(vectors, [vectors, slopes])
    turn = div(imag(slope), real(found))
    return make_complex(zeros(shape_of(turn), part_dtype(vectors)), turn)


# -- of stacks of small matrices ---------------------------------------------------------------------------------------
def is_stack_of_small(shape: Shape, most: int = SMALL) -> bool:
    """Whether these are many small square matrices: one after the other each would be too little work for a loop."""
    *lead, rows, columns = shape
    alone = all(isinstance(n, int) and n == 1 for n in lead)
    return not alone and isinstance(rows, int) and isinstance(columns, int) and 0 < rows == columns <= most


def elements_of(x: ArrayLike) -> list[list[Result]]:
    """Each element of the matrices, as an array over the stack."""
    *lead, rows, columns = shape_of(x)
    first = (0,) * len(lead)
    part = (*lead, 1, 1)
    return [
        [reshape(slice_array(x, (*first, i, j), part), tuple(lead)) for j in range(columns)]  # type: ignore[arg-type]
        for i in range(rows)  # type: ignore[arg-type]
    ]


def from_elements(parts: Sequence[Sequence[ArrayLike | None]]) -> Result:
    """The matrices of these elements; None is zero."""
    given = next(x for row in parts for x in row if x is not None)
    lead = shape_of(given)
    out = zeros((*lead, len(parts), len(parts[0])), dtype_of(given))
    first = (0,) * len(lead)
    for i, row in enumerate(parts):
        for j, x in enumerate(row):
            if x is not None:
                out = update_slice(out, reshape(x, (*lead, 1, 1)), (*first, i, j))
    return out


def less_products(x: ArrayLike, pairs: Sequence[tuple[ArrayLike, ArrayLike]]) -> Result:
    """x minus the products of pairs, in order."""
    for a, b in pairs:
        x = sub(x, mul(a, b))
    return x


# -- of stacks of matrices ---------------------------------------------------------------------------------------------
def swapped(x: ArrayLike) -> Result:
    """The transposed matrices."""
    rank = len(shape_of(x))
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: ArrayLike) -> Result:
    """The transposed matrices, conjugated."""
    return conj(swapped(x))


def product(x: ArrayLike, y: ArrayLike) -> Result:
    """The products of matrices."""
    rank = len(shape_of(x))
    batch = tuple(range(rank - 2))
    return dot_general(x, y, ((rank - 1,), (rank - 2,)), (batch, batch))


def _kept(x: ArrayLike, test: Any, rows_first: bool) -> Result:
    shape = shape_of(x)
    rank = len(shape)
    i, j = iota(shape, rank - 2, np.int64), iota(shape, rank - 1, np.int64)
    inside = bind(test(), i, j) if rows_first else bind(test(), j, i)
    return select(inside, x, zeros(shape, dtype_of(x)))


def lower_part(x: ArrayLike, strict: bool = False) -> Result:
    """The matrices with zeros above the diagonal, and with `strict` on it."""
    return _kept(x, Gt if strict else Ge, True)


def upper_part(x: ArrayLike, strict: bool = False) -> Result:
    """The matrices with zeros below the diagonal, and with `strict` on it."""
    return _kept(x, Gt if strict else Ge, False)


def mirrored(x: ArrayLike, lower: bool = True) -> Result:
    """The symmetric (of complex numbers: Hermitian) matrices that have this triangle."""
    shape = shape_of(x)
    rank = len(shape)
    i, j = iota(shape, rank - 2, np.int64), iota(shape, rank - 1, np.int64)
    kept = bind(Ge(), i, j) if lower else bind(Ge(), j, i)
    if not is_complex(x):
        return select(kept, x, swapped(x))
    both = select(kept, x, adjoint(x))
    return select(bind(Eq(), i, j), convert(real(x), dtype_of(x)), both)


def eye_like(x: ArrayLike) -> Result:
    """Identity matrices in the shape of x."""
    shape = shape_of(x)
    rank = len(shape)
    return convert(bind(Eq(), iota(shape, rank - 2, np.int64), iota(shape, rank - 1, np.int64)), dtype_of(x))


def diagonal_of(x: ArrayLike) -> Result:
    """The diagonals of square matrices."""
    shape = shape_of(x)
    at = tuple([iota(shape[:-1], d, np.int64) for d in range(len(shape) - 1)])
    return gather(x, tuple(range(len(shape))), [*at, at[-1]])


def scaled_rows(x: ArrayLike, by: ArrayLike) -> Result:
    """Row i of each matrix times by[..., i]."""
    rank = len(shape_of(x))
    return mul(x, broadcast_in_dim(like(by, x), shape_of(x), tuple(range(rank - 1))))


def scaled_columns(x: ArrayLike, by: ArrayLike) -> Result:
    """Column j of each matrix times by[..., j]."""
    rank = len(shape_of(x))
    return mul(x, broadcast_in_dim(like(by, x), shape_of(x), (*range(rank - 2), rank - 1)))
