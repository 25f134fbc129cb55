"""`np.einsum`: subscripts parsed into diagonals, sums, contractions and one final transpose."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracejit.ir.extents import Extent, is_one, spreads
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.axes import reject, same_extent
from tracejit.numpy.linear import alike, diagonal, diagonal_view, preferred, preferring
from tracejit.numpy.promotion import aval
from tracejit.numpy.shaping import array_of
from tracejit.numpy.strides import laid_out_by, strides_of
from tracejit.numpy.views import transposed
from tracejit.primitives import shape as p
from tracejit.primitives.contraction import dot_general
from tracejit.support.errors import DtypeError
from tracejit.support.nodes import frozen
from tracejit.support.precision import PrecisionLike
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result
from tracejit.tracer.layout import AS_IS, UNKNOWN, Layout
from tracejit.tracer.tables import FUNCTIONS, IN_DTYPE_OF_OUT, OUT_CASTING
from tracejit.tracer.tracer import Tracer

__all__ = ["einsum", "einsum_path"]


@frozen
class _Term:
    """An operand and the label of each of its axes; labels are letters,
    or integers for the axes an ellipsis stands for.
    """

    value: Any
    labels: tuple[Any, ...]


def einsum(
    *operands: ArrayLike,
    out: ArrayLike = None,
    optimize: Any = False,
    dtype: DTypeLike = None,
    order: Any = "K",
    casting: Any = "safe",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: Any = None,
) -> Result:
    """Sums of products by subscripts ("ij,jk->ik"), with ellipses, repeated labels and the form with lists of integers.

    Operands are taken from left to right; with `optimize` in the order that numpy.einsum_path finds.
    preferred_element_type: the dtype of sums and result.  precision: changes nothing.

    Raises: ShapeError if subscripts do not fit the operands or extents of a label differ; DtypeError if `casting`
    forbids `dtype`.
    """
    subscripts, values = _arguments(operands)
    if len(values) == 1 and out is None and preferred_element_type is None:
        x = array_of(values[0])
        (labels,), result = _parsed(subscripts, [aval(x).ndim])
        if set(labels) == set(result):
            return _viewed(x, labels, result)
    if dtype is not None and not all(np.can_cast(aval(array_of(x)).dtype, dtype, casting) for x in values):
        raise DtypeError(
            f"np.einsum computes in {dtype} what casts to it by the rule {casting!r}", location=user_location()
        )
    xs, wanted = preferring("einsum", alike(*values, dtype=dtype), precision, preferred_element_type, out_sharding)
    inputs, result = _parsed(subscripts, [aval(x).ndim for x in xs])
    terms = [_Term(x, labels) for x, labels in zip(xs, inputs, strict=True)]
    terms = _unit_axes_dropped(terms, _extents(terms), result)
    path = _path(optimize, terms, subscripts, values)
    for i, j in path:
        later = [t for n, t in enumerate(terms) if n not in (i, j)]
        kept = set(result).union(*[t.labels for t in later])
        terms = [*later, _product(terms[i], terms[j], kept)]
    extents = _extents([_Term(x, labels) for x, labels in zip(xs, inputs, strict=True)])
    made = _placed(_summed(_no_repeats(terms[0]), set(result)), result, tuple([extents[a] for a in result]))
    made = u.unchanged(preferred(made, wanted))
    if isinstance(made, Tracer):
        made.layout = _layout(made, values, inputs, result) if optimize is False else UNKNOWN
    return made


def _layout(
    made: Tracer, values: Sequence[ArrayLike], inputs: Sequence[tuple[ArrayLike, ...]], result: tuple[ArrayLike, ...]
) -> Layout:
    """NumPy's iterator runs over the labels of the result and those that are summed;
    it orders the axes as the operands lie in memory.
    """
    every = [*result, *sorted({a for labels in inputs for a in labels} - set(result), key=str)]
    rows: list[list[Extent]] = []
    for x, labels in zip(values, inputs, strict=True):
        strides = strides_of(array_of(x))
        if not isinstance(strides, tuple):
            return strides
        wide = [(a, s) for a, s, n in zip(labels, strides, aval(array_of(x)).shape, strict=True) if not _is_one(n)]
        rows.append([sum([s for b, s in wide if b == a], 0) for a in every])
    return laid_out_by(rows, made)


def _viewed(x: ArrayLike, labels: tuple[Any, ...], result: tuple[ArrayLike, ...]) -> Result:
    """One operand of which nothing is summed: a view, whatever else is asked for."""
    rest = list(labels)
    while len(set(rest)) < len(rest):
        a, i, j = _repeated(x, rest)
        x = diagonal_view(x, i, j)
        rest = [b for d, b in enumerate(rest) if d not in (i, j)] + [a]
    return transposed(x, tuple([rest.index(a) for a in result]))


def _repeated(x: ArrayLike, labels: list[Any]) -> tuple[Result, int, int]:
    """A label that names two axes, and these.  Raises ShapeError if they differ in extent."""
    a = next(a for a in labels if labels.count(a) > 1)
    i = labels.index(a)
    j = labels.index(a, i + 1)
    n, m = aval(x).shape[i], aval(x).shape[j]
    if not same_extent(n, m) and n != m:
        raise reject(f"np.einsum: label {a!r} stands for extents {n} and {m} of one operand")
    return a, i, j


def _arguments(operands: Sequence[ArrayLike]) -> tuple[str, list[Result]]:
    """(subscripts, operands) of either calling form."""
    if not operands:
        raise reject("np.einsum needs subscripts")
    if isinstance(operands[0], str):
        if len(operands) < 2:
            raise reject("np.einsum needs at least one operand")
        return operands[0].replace(" ", ""), list(operands[1:])
    pairs, target = list(operands), None
    if len(pairs) % 2:
        target = pairs.pop()
    subscripts = ",".join(_letters(labels) for labels in pairs[1::2])
    return subscripts + ("" if target is None else "->" + _letters(target)), pairs[::2]


def _letters(labels: Any) -> str:
    parts = ["..." if n is Ellipsis else string.ascii_letters[n] for n in labels]
    return "".join(parts)


def _parsed(subscripts: str, ranks: Sequence[int]) -> tuple[list[tuple[Result, ...]], tuple[Result, ...]]:
    """Labels of each operand's axes and of the result's."""
    left, arrow, right = subscripts.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise reject(f"np.einsum: {subscripts!r} has {len(parts)} terms for {len(ranks)} operands")
    inputs = [_labels(part, rank, subscripts) for part, rank in zip(parts, ranks, strict=True)]
    hidden = sorted({a for labels in inputs for a in labels if isinstance(a, int)}, reverse=True)
    if arrow:
        if right.count("...") > 1:
            raise reject(f"np.einsum: {subscripts!r} has two ellipses in the result")
        head, dots, tail = right.partition("...")
        result: tuple[Any, ...] = (*head, *(hidden if dots else ()), *tail)
        if hidden and not dots:
            raise reject(
                f"np.einsum: {subscripts!r} drops the axes of the ellipsis; name them in the result with '...'"
            )
    else:
        letters = [a for labels in inputs for a in labels if isinstance(a, str)]
        result = (*hidden, *sorted(a for a in set(letters) if letters.count(a) == 1))
    known = {a for labels in inputs for a in labels}
    for a in result:
        if a not in known or result.count(a) > 1 or (isinstance(a, str) and not a.isalpha()):
            raise reject(
                f"np.einsum: {subscripts!r}: label {a!r} of the result "
                + ("appears twice" if result.count(a) > 1 else "is in no operand")
            )
    return inputs, result


def _labels(part: str, rank: int, subscripts: str) -> tuple[Result, ...]:
    head, dots, tail = part.partition("...")
    for a in head + tail:
        if not (a.isascii() and a.isalpha()):
            raise reject(f"np.einsum: {a!r} in {subscripts!r} is not a letter")
    count = rank - len(head) - len(tail)
    if count < 0 or (count > 0 and not dots):
        raise reject(
            f"np.einsum: {part!r} in {subscripts!r} has {len(head) + len(tail)} labels for an operand of rank {rank}"
        )
    return (*head, *range(count - 1, -1, -1), *tail)


def _extents(terms: Sequence[_Term]) -> dict[Any, Extent]:
    """The extent of each label.  Raises ShapeError where operands disagree; extents of 1 are spread."""
    found: dict[Any, Extent] = {}
    for t in terms:
        own: dict[Any, Extent] = {}
        for a, n in zip(t.labels, aval(t.value).shape, strict=True):
            if not same_extent(own.setdefault(a, n), n) and own[a] != n:  # a diagonal is of a square: nothing is spread
                raise reject(f"np.einsum: label {a!r} stands for extents {own[a]} and {n} of one operand")
            before = found.setdefault(a, n)
            if spreads(n, before):
                continue
            if not is_one(before):
                raise reject(f"np.einsum: label {a!r} stands for extents {before} and {n}")
            found[a] = n
    return found


def _is_one(n: Extent) -> bool:
    return isinstance(n, int) and n == 1


def _unit_axes_dropped(
    terms: Sequence[_Term], extents: dict[Any, Extent], result: tuple[ArrayLike, ...]
) -> list[_Term]:
    """Axes of extent 1 whose label is wider elsewhere carry nothing: the product without them is the same."""
    out: list[_Term] = []
    for t in terms:
        shape = aval(t.value).shape
        kept = [
            d for d, (a, n) in enumerate(zip(t.labels, shape, strict=True)) if not _is_one(n) or _is_one(extents[a])
        ]
        out.append(_Term(p.reshape(t.value, tuple([shape[d] for d in kept])), tuple([t.labels[d] for d in kept])))
    return out


def _path(optimize: Any, terms: Sequence[_Term], subscripts: str, values: Sequence[ArrayLike]) -> list[tuple[int, int]]:
    """Pairs to contract, each result put at the end."""
    from_left = [(0, 1)] + [(0, len(terms) - 2 - n) for n in range(len(terms) - 2)]
    if len(terms) < 2:
        return []
    shapes = [aval(array_of(v)).shape for v in values]
    if len(terms) == 2 or optimize is False or any(not isinstance(n, int) for s in shapes for n in s):
        # The running product is at the end of the list, the next operand at its front.
        return [from_left[0], *[(len(terms) - 2 - n, 0) for n in range(len(terms) - 2)]]
    dummies = [np.broadcast_to(np.float64(0), cast("tuple[int, ...]", s)) for s in shapes]
    chosen = optimize if isinstance(optimize, (list, tuple)) else "greedy"
    steps: list[Any] = list(np.einsum_path(subscripts, *dummies, optimize=chosen)[0][1:])
    pairs: list[tuple[int, int]] = []
    for step in steps:
        step = sorted(step)
        if len(step) == 1:
            continue
        # A step of several operands is taken two at a time.
        size = len(terms) - len(pairs)
        places = list(step)
        i, j = places[0], places[1]
        pairs.append((i, j))
        rest = [n - sum(m < n for m in (i, j)) for n in places[2:]]
        size -= 1
        while rest:
            n = rest.pop(0)
            pairs.append((n, size - 1))
            rest = [m - (n < m) for m in rest]
            size -= 1
    return pairs


def _no_repeats(t: _Term) -> _Term:
    """Diagonals taken until every label names one axis."""
    x, labels = t.value, list(t.labels)
    while len(set(labels)) < len(labels):
        a, i, j = _repeated(x, labels)
        x = diagonal(x, 0, i, j)
        labels = [b for d, b in enumerate(labels) if d not in (i, j)] + [a]
    return _Term(x, tuple(labels))


def _summed(t: _Term, kept: set[Any]) -> _Term:
    """Labels that nobody else reads summed away, in the operand's own dtype."""
    over = tuple(d for d, a in enumerate(t.labels) if a not in kept)
    if not over:
        return t
    dtype = aval(t.value).dtype
    x = r.any(t.value, axis=over) if dtype == np.bool_ else r.sum(t.value, axis=over, dtype=dtype)
    return _Term(x, tuple(a for a in t.labels if a in kept))


def _product(s: _Term, t: _Term, kept: set[Any]) -> _Term:
    """Two operands contracted over the labels that end with them."""
    s, t = _no_repeats(s), _no_repeats(t)
    s, t = _summed(s, kept | set(t.labels)), _summed(t, kept | set(s.labels))
    shared = [a for a in s.labels if a in t.labels]
    batch = [a for a in shared if a in kept]
    contract = [a for a in shared if a not in kept]

    def axes(term: _Term, labels: Sequence[Any]) -> tuple[int, ...]:
        return tuple(term.labels.index(a) for a in labels)

    labels = (*batch, *[a for a in s.labels if a not in shared], *[a for a in t.labels if a not in shared])
    if contract:
        x = dot_general(s.value, t.value, (axes(s, contract), axes(t, contract)), (axes(s, batch), axes(t, batch)))
        return _Term(x, labels)
    # Nothing is summed: a plain product, broadcast.
    extents = _extents([s, t])
    shape = tuple(extents[a] for a in labels)
    return _Term(u.multiply(_placed(s, labels, shape), _placed(t, labels, shape)), labels)


def _placed(t: _Term, labels: Sequence[Any], shape: tuple[Extent, ...]) -> Result:
    """The operand with its axes in the order of `labels`, spread over those it has not."""
    order = sorted(range(len(t.labels)), key=lambda d: labels.index(t.labels[d]))
    x = p.transpose(t.value, tuple(order))
    return p.broadcast_in_dim(x, shape, tuple(labels.index(t.labels[d]) for d in order))


def einsum_path(*operands: ArrayLike, optimize: Any = "greedy", einsum_call: bool = False) -> Result:
    """numpy.einsum_path for traced arrays of known shape."""
    subscripts, values = _arguments(operands)
    dummies = [np.broadcast_to(np.float64(0), tuple(int(n) for n in aval(array_of(v)).shape)) for v in values]
    return np.einsum_path(subscripts, *dummies, optimize=optimize)


AS_IS.add(einsum)
OUT_CASTING[einsum] = "safe"
IN_DTYPE_OF_OUT[einsum] = lambda have, out: out if np.can_cast(have, out) else None
FUNCTIONS.update({np.einsum: einsum, np.einsum_path: einsum_path})
