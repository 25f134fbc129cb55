"""Functions of users along axes, and of the elements or parts of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import Any

import numpy as np

from tracejit.api.array import as_numpy, own
from tracejit.ir.extents import Extent, Shape, is_empty, is_one
from tracejit.numpy.axes import axis_index, items_of, reject, same_extent, unsupported
from tracejit.numpy.joining import concatenate, element_at, part
from tracejit.numpy.promotion import aval, broadcast_shapes, to_dtype
from tracejit.numpy.shaping import array_of, expand_dims, moveaxis
from tracejit.primitives import shape as p
from tracejit.support.errors import ConcretizationError, UserError, pass_over
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, Result
from tracejit.tracer.interpreter import current_interpreter, eager
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.redirect import prepared
from tracejit.tracer.tables import FUNCTIONS

__all__ = ["apply_along_axis", "apply_over_axes", "frompyfunc", "vectorize"]


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Result:
    """`func1d(vector, *args, **kwargs)` of each vector along an axis; the axes of its result stand in place of that.

    The function is traced once, as by `tj.vmap`.

    Raises: ShapeError for a missing axis, and for no vectors at all.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.apply_along_axis(np.cumsum, 1, x))(np.array([[1, 2], [3, 4]]))
    array([[1, 3],
           [3, 7]])
    """
    x = array_of(arr)
    rank = aval(x).ndim
    k = axis_index(axis, rank)
    x = moveaxis(x, k, -1)
    if any(is_empty(n) for n in aval(x).shape[:-1]):
        raise reject("np.apply_along_axis: Cannot apply_along_axis when any iteration dimensions are 0")
    from tracejit.api.vmap import vmap  # for speed of import

    def each(vector: ArrayLike) -> Result:
        return array_of(prepared(func1d)(vector, *args, **kwargs))

    function: Any = each
    for _ in range(rank - 1):
        function = vmap(function)
    try:
        found = function(x)
    except ConcretizationError as error:
        if current_interpreter() is not eager:
            raise
        pass_over(error)  # the function decides by values, which are known here: NumPy calls it for each
        return np.apply_along_axis(func1d, k, as_numpy(array_of(arr)), *args, **kwargs)
    made = aval(found).ndim - (rank - 1)
    return moveaxis(found, tuple(range(rank - 1, rank - 1 + made)), tuple(range(k, k + made)))


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: ArrayLike) -> Result:
    """`func(a, axis)` for one axis after the other; an axis that it drops is put back with extent 1.

    Raises: ShapeError where the function drops more.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: np.apply_over_axes(np.sum, x, (0, 1)))(np.ones((2, 3)))
    array([[6.]])
    """
    value = array_of(a)
    rank = aval(value).ndim
    for axis in items_of(axes):
        k = int(axis) + rank if axis < 0 else int(axis)  # which the function looks at
        found = array_of(prepared(func)(value, k))
        if aval(found).ndim != rank:
            found = expand_dims(found, k)
        if aval(found).ndim != rank:
            raise reject("np.apply_over_axes: function is not returning an array of the correct shape")
        value = found
    return value


# -- elements and parts ------------------------------------------------------------------------------------------------
_NAMES = r"\(\s*(?:\w+\s*(?:,\s*\w+\s*)*,?\s*)?\)"
_SIGNATURE = re.compile(rf"^\s*(?:{_NAMES}\s*(?:,\s*{_NAMES}\s*)*)?->\s*{_NAMES}\s*(?:,\s*{_NAMES}\s*)*$")


def _parsed(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The names of the axes of operands and results.

    Raises: ValueError for text that is none.
    """
    if not _SIGNATURE.match(signature):
        raise ValueError(f"not a valid gufunc signature: {signature}")
    found = [[tuple(re.findall(r"\w+", names)) for names in re.findall(_NAMES, side)] for side in signature.split("->")]
    return found[0], found[1]


class vectorize:
    """A function of single elements as one of arrays that are broadcast together; with a signature of parts of them.

    The function is traced once, as by `tj.vmap`, not called for each element.

    pyfunc: takes numbers, or arrays with the axes that `signature` names, "(n),(n)->()".  Left out of a decorator.
    otypes: dtypes of the results.
    excluded: places or names of arguments that are given as they are.
    cache: changes nothing.

    Raises: UserError for a number of arguments or results other than the signature's; ShapeError for extents that
    differ.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x, y: tj.numpy.vectorize(lambda a, b: max(a, b))(x, y))(np.array([1, 5]), 3)
    array([3, 5])
    """

    def __init__(
        self,
        pyfunc: Any = np._NoValue,  # pyright: ignore[reportPrivateUsage]
        otypes: Any = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc: Any = None
        self.otypes = _dtypes(otypes)
        self.excluded: frozenset[int | str] = frozenset(excluded or ())
        self.cache, self.signature = cache, signature
        self._given_doc = doc
        self._inputs, self._outputs = _parsed(signature) if signature is not None else (None, None)
        if pyfunc is not np._NoValue:  # pyright: ignore[reportPrivateUsage]
            self._wrap(pyfunc)

    def _wrap(self, pyfunc: Callable[..., Any]) -> None:
        if not callable(pyfunc):
            raise TypeError("When used as a decorator, only accepts a callable.")
        update_wrapper(self, pyfunc, updated=())
        self.pyfunc = pyfunc
        if self._given_doc is not None:
            self.__doc__ = self._given_doc

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is None:
            self._wrap(*args)
            return self
        names = [key for key in kwargs if key not in self.excluded]
        places = [n for n in range(len(args)) if n not in self.excluded]
        operands = [array_of(args[n]) for n in places] + [array_of(kwargs[key]) for key in names]

        def each(*values: Any) -> Any:
            given, named = list(args), dict(kwargs)
            for n, value in zip(places, values, strict=False):
                given[n] = value
            named.update(zip(names, values[len(places) :], strict=True))
            return prepared(self.pyfunc)(*given, **named)

        if not operands:
            return own(each(), args, kwargs)
        try:
            return own(self._mapped(each, operands), args, kwargs)
        except ConcretizationError as error:
            if current_interpreter() is not eager:
                raise
            pass_over(error)  # the function decides by values, which are known here: NumPy calls it for each
        return own(self._each_by_itself()(*as_numpy(args), **as_numpy(kwargs)), args, kwargs)

    def _each_by_itself(self) -> Any:
        codes = None if self.otypes is None else "".join([dtype.char for dtype in self.otypes])
        return np.vectorize(self.pyfunc, codes, excluded=self.excluded, signature=self.signature)

    def _mapped(self, function: Callable[..., Any], operands: list[Any]) -> Any:
        from tracejit.api.vmap import vmap  # for speed of import

        cores = self._inputs if self._inputs is not None else [()] * len(operands)
        if len(cores) != len(operands):
            raise UserError(
                f"wrong number of positional arguments: expected {len(cores)}, got {len(operands)}",
                location=user_location(),
            )
        shapes = [aval(x).shape for x in operands]
        extents: dict[str, Extent] = {}
        for shape, core in zip(shapes, cores, strict=True):
            _bind_names(shape, core, extents, "argument")
        leads: list[Shape] = [shape[: len(shape) - len(core)] for shape, core in zip(shapes, cores, strict=True)]
        common = broadcast_shapes(*leads)
        rank = len(common)
        mapped: Any = lambda *values: self._results(function(*values), extents)  # noqa: E731
        # The innermost map goes over the last of the common axes; an axis of extent 1 beside a longer one is dropped.
        kept = [
            [d for d in range(len(lead)) if not (is_one(lead[d]) and not is_one(common[d + rank - len(lead)]))]
            for lead in leads
        ]
        for d in reversed(range(rank)):
            at = tuple([0 if d - (rank - len(lead)) in axes else None for lead, axes in zip(leads, kept, strict=True)])
            if all(axis is None for axis in at):
                raise unsupported("np.vectorize: an axis of extent 1 is in question here; reshape the operands")
            mapped = vmap(mapped, in_axes=at)
        for n, (shape, lead, axes) in enumerate(zip(shapes, leads, kept, strict=True)):
            if len(axes) != len(lead):
                operands[n] = p.reshape(operands[n], (*[lead[d] for d in axes], *shape[len(lead) :]))
        return mapped(*operands)

    def _results(self, found: Any, extents: dict[str, Extent]) -> Any:
        """What the function returns, as arrays of the dtypes and shapes that were asked for."""
        several = isinstance(found, tuple)
        results = [array_of(x) for x in (found if several else (found,))]
        if self._outputs is not None:
            if len(self._outputs) != len(results):
                raise UserError(
                    f"wrong number of outputs from pyfunc: expected {len(self._outputs)}, got {len(results)}",
                    location=user_location(),
                )
            for x, core in zip(results, self._outputs, strict=True):
                if aval(x).ndim != len(core):
                    raise reject(f"a result of shape {aval(x).shape} for the axes {core} of the signature")
                _bind_names(aval(x).shape, core, dict(extents), "result")
        elif any(aval(x).ndim for x in results):
            raise reject("np.vectorize: the function returns an array; say so in a signature, '()->(n)'")
        if self.otypes is not None:
            results = [to_dtype(x, dtype) for x, dtype in zip(results, self.otypes, strict=True)]
        return tuple(results) if several else results[0]


def _dtypes(otypes: Any) -> list[np.dtype[Any]] | None:
    if otypes is None:
        return None
    return [np.dtype(kind) for kind in ([otypes] if isinstance(otypes, type) else otypes)]


def _bind_names(shape: Shape, core: Sequence[str], extents: dict[str, Extent], what: str) -> None:
    """The extents of the named axes, the last ones.  Raises: ShapeError for missing ones, and others than before."""
    if len(shape) < len(core):
        raise reject(
            f"{len(shape)}-dimensional {what} does not have enough dimensions for all core dimensions {core!r}"
        )
    for name, n in zip(core, shape[len(shape) - len(core) :], strict=True):
        have = int(name) if name.isdigit() else extents.setdefault(name, n)
        if not same_extent(have, n) and have != n:
            raise reject(f"inconsistent size for core dimension {name!r}: {n} vs {have}")


class _Ufunc:
    """A function of numbers as one of arrays, with the methods of NumPy's ufuncs that need nothing else."""

    def __init__(self, func: Callable[..., Any], nin: int, nout: int, identity: Any) -> None:
        self.nin, self.nout, self.nargs, self.identity = nin, nout, nin + nout, identity
        update_wrapper(self, func, updated=())
        self._elementwise = vectorize(func)

    def __call__(self, *args: ArrayLike) -> Any:
        if len(args) != self.nin:
            raise UserError(f"the function takes {self.nin} operands, not {len(args)}", location=user_location())
        found = self._elementwise(*args)
        if (len(found) if isinstance(found, tuple) else 1) != self.nout:
            raise UserError(f"the function does not return {self.nout} results", location=user_location())
        return found

    def _binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise UserError(f"{method} is there for functions of two numbers to one", location=user_location())

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Result:
        """The function of each element of A with each of B."""
        self._binary("outer")
        x, y = array_of(A), array_of(B)
        return self(p.reshape(x, (*aval(x).shape, *(1,) * aval(y).ndim)), y)

    def reduce(self, a: ArrayLike, axis: Any = 0, dtype: Any = None, *, keepdims: bool = False) -> Result:
        """The elements along an axis (several, or all with None) joined by the function, from the first on.

        Raises: ShapeError for no elements, unless the function has an identity.
        """
        self._binary("reduce")
        x = array_of(a) if dtype is None else to_dtype(array_of(a), dtype)
        rank = aval(x).ndim
        axes = tuple(range(rank)) if axis is None else tuple([axis_index(d, rank) for d in items_of(axis)])
        shape = tuple([1 if d in axes else n for d, n in enumerate(aval(x).shape)])
        for d in sorted(axes, reverse=True):
            x = self._folded(moveaxis(x, d, 0))
        return own(p.reshape(x, shape) if keepdims else x, a)

    def _folded(self, rows: ArrayLike) -> Result:
        """The rows of an array joined by the function."""
        from tracejit.api.control import fori_loop  # for speed of import

        n, dtype = aval(rows).shape[0], aval(rows).dtype
        if is_empty(n):
            if self.identity is None:
                raise reject("zero-size array to a reduction that has no identity")
            return FUNCTIONS[np.full](aval(rows).shape[1:], self.identity, dtype)

        def step(i: Any, y: Any) -> Any:
            return to_dtype(self._elementwise(y, OPERATORS.getitem(rows, i)), dtype)

        return fori_loop(1, n, step, element_at(rows, 0))

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: Any = None) -> Result:
        """All prefixes along an axis, joined by the function from the first element on."""
        self._binary("accumulate")
        from tracejit.api.control import scan  # for speed of import

        x = array_of(a) if dtype is None else to_dtype(array_of(a), dtype)
        k = axis_index(axis, aval(x).ndim)
        rows = moveaxis(x, k, 0)
        if is_empty(aval(rows).shape[0]):
            return own(x, a)
        dtype_of = aval(rows).dtype

        def step(before: Any, row: Any) -> tuple[Any, Any]:
            found = to_dtype(self._elementwise(before, row), dtype_of)
            return found, found

        n = aval(rows).shape[0]
        _, rest = scan(step, element_at(rows, 0), part(rows, 0, 1, n - 1))
        return own(moveaxis(concatenate([part(rows, 0, 0, 1), rest]), 0, k), a)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> _Ufunc:
    """A function of `nin` numbers to `nout` as one of arrays that are broadcast together.

    Results have the dtypes that the function gives, where NumPy's have objects.  It has the methods `outer`, `reduce`
    and `accumulate` if it takes two numbers to one.   Source: jax.numpy.frompyfunc.

    >>> import numpy as np, tracejit as tj
    >>> longer = tj.numpy.frompyfunc(lambda a, b: (a * a + b * b) ** 0.5, 2, 1)
    >>> tj.jit(lambda x, y: longer(x, y))(np.array([3.0, 6.0]), np.array([4.0, 8.0]))
    array([ 5., 10.])
    """
    return _Ufunc(func, nin, nout, identity)


FUNCTIONS.update({np.apply_along_axis: apply_along_axis, np.apply_over_axes: apply_over_axes})
