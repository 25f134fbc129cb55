"""`x[mask]` with a mask that is not known while tracing: how many elements it has is not known either.

A `Selection` stands for it: all elements of x and the mask, of which the selected ones count. It can be computed with
elementwise, reduced, and assigned to where it came from, `x[mask] *= 2` and `x[mask] = np.sqrt(y[mask])`. All else
needs the shape, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tracejit.ir.extents import is_one, same_shape
from tracejit.numpy import reductions, rounding, selecting, ufuncs as u
from tracejit.numpy.axes import axis_index, is_whole
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import copy
from tracejit.primitives.shape import reshape
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import ShapeError, TracerError, UnsupportedError
from tracejit.support.source import Location, user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, IndexLike, Result
from tracejit.tracer.interpreter import current_interpreter
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.python_operators import BINARY, COMPARISONS, UNARY
from tracejit.tracer.recorder import with_masks_by_value
from tracejit.tracer.restarts import MasksByValue
from tracejit.tracer.same import same_value
from tracejit.tracer.tables import METHODS
from tracejit.tracer.tracer import Tracer

__all__ = ["Selection", "assigned", "select"]


class Selection(Tracer):
    """x[mask]: of `full`, an array with the axes of x, the elements where `mask` holds.

    at: how many axes of `full` lie before those of the mask, which the selection has as one axis.
    What a Tracer has but a Selection cannot give (a shape, a value) is refused wherever it is asked for.
    """

    __slots__ = ("at", "full", "mask")

    def __init__(self, full: ArrayLike, mask: ArrayLike, at: int, location: Location | None) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.interpreter = current_interpreter()
        self.full = full
        self.mask = mask
        self.at = at
        self.location = location
        self.is_array = True

    @property
    def rest(self) -> int:
        """How many axes lie behind that of the selected elements."""
        return aval(self.full).ndim - aval(self.mask).ndim - self.at

    @property
    def ndim(self) -> int:
        return self.at + 1 + self.rest

    @property
    def dtype(self) -> np.dtype[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] -- both refuse assignments
        return self.full.dtype

    @property
    def itemsize(self) -> int:
        return self.full.dtype.itemsize

    def refuse(self, what: str, location: Location | None = None) -> NoReturn:
        """Raise the error for something that needs the shape; or have the trace start again if the mask can be known
        then.
        """
        mask = self.mask
        if (
            with_masks_by_value() is False
            and isinstance(mask, Tracer)
            and mask.interpreter.alive
            and mask.known() is not None
        ):
            raise MasksByValue
        location = location or user_location() or self.location
        made = None if self.location is None else self.location.short()
        notes = (
            ()
            if made is None or (location is not None and location.short() == made)
            else (f"x[mask] was taken at {made}",)
        )
        raise UnsupportedError(
            f"the shape of x[mask] depends on data, so {what} is not supported; x[mask] can be computed with "
            "elementwise, summed, and "
            "assigned to the same elements (x[mask] = f(x[mask])); use np.where(mask, x, other) for an array of x's "
            "shape and "
            "np.sum(mask) for the number of elements",
            location=location,
            notes=notes,
        )

    def returned(self) -> NoReturn:
        """It is a result of the traced function."""
        self.refuse("returning it", self.location)

    # -- what a Tracer has ---------------------------------------------------------------------------------------------
    @property
    def aval(self) -> Result:
        self.refuse("what is done with it here")

    @property
    def value(self) -> Result:
        self.refuse("what is done with it here")

    @property
    def shape(self) -> Result:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.refuse("its shape")

    @property
    def size(self) -> Result:
        self.refuse("its size")

    @property
    def nbytes(self) -> Result:
        self.refuse("its size")

    def __len__(self) -> int:
        self.refuse("len()")

    def __iter__(self) -> Result:
        self.refuse("a loop over it")

    def __bool__(self) -> bool:
        self.refuse("its truth value")

    def __int__(self) -> int:
        self.refuse("int()")

    def __float__(self) -> float:
        self.refuse("float()")

    def __index__(self) -> int:
        self.refuse("an index")

    def __array__(self, dtype: DTypeLike = None, copy: Any = None) -> Result:
        self.refuse("np.asarray")

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else self.refuse("formatting")

    def __hash__(self) -> int:
        raise TracerError(
            "a traced array is unhashable, as np.ndarray is; look it up by something else", location=user_location()
        )

    def __repr__(self) -> str:
        return f"Tracer<{self.dtype} selected by {aval(self.mask)}>"

    def __getattr__(self, name: str) -> Result:
        if name in ("_aval", "_value", "_version", "root", "index"):
            self.refuse("what is done with it here")
        if name in _METHODS:
            return lambda *args, **kwargs: _METHODS[name](self, *args, **kwargs)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"an array has no attribute {name!r}")
        self.refuse(f"{name}()" if callable(getattr(np.ndarray, name)) else name)

    # -- elements ------------------------------------------------------------------------------------------------------
    def wide(self) -> Result:
        """The mask, with axes of extent 1 for those behind."""
        return _wide(self.mask, self.rest)

    def operand(self, x: ArrayLike) -> Result:
        """What is computed with, spread over all elements.  Where the mask does not hold, no derivative passes."""
        if isinstance(x, Selection):
            if x.rest != self.rest or not same_value(x.mask, self.mask):
                raise UnsupportedError(
                    "selections by two masks, or of arrays of different rank, are computed with; it must be one mask "
                    "for the trace to know "
                    "which elements belong together: give it a name (m = x > 0) and use that for both",
                    location=user_location(),
                )
            return x.full
        if weak_kind(x) is not None:
            return x
        x = _beside(self, as_array(x))
        return _inside(x, self.wide()) if isinstance(x, Tracer) else x

    def apply(self, function: Callable[..., Any], *args: ArrayLike, **kwargs: Any) -> Result:
        """An elementwise function of selections by this mask, arrays that spread to it, and numbers."""
        found = function(*map(self.operand, args), **{name: self.operand(x) for name, x in kwargs.items()})
        before = aval(self.mask).ndim + self.rest
        results = [
            Selection(x, self.mask, aval(x).ndim - before, self.location)
            for x in (found if isinstance(found, tuple) else (found,))
        ]
        return tuple(results) if isinstance(found, tuple) else results[0]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: ArrayLike, **kwargs: Any) -> Result:
        if method != "__call__" or not set(kwargs) <= {"dtype", "casting"} or ufunc is np.matmul:
            self.refuse(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
        return self.apply(lambda *args: ufunc(*args, **kwargs), *inputs)

    def __array_function__(self, func: Any, types: Any, args: ArrayLike, kwargs: Any) -> Result:
        if func in _ELEMENTWISE:
            chosen = next(x for x in (*args, *kwargs.values()) if isinstance(x, Selection))
            return chosen.apply(func, *args, **kwargs)
        reduce = _METHODS.get(func.__name__) if getattr(func, "__module__", "") == "numpy" else None
        if reduce is None or not args or args[0] is not self:
            self.refuse(f"np.{func.__name__}")
        return reduce(*args, **kwargs)

    def __getitem__(self, index: IndexLike) -> Result:
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) == 1 and isinstance(parts[0], Selection) and parts[0].dtype == np.bool_:
            return Selection(self.full, u.logical_and(self.mask, self._mask_of(parts[0])), self.at, user_location())
        return Selection(self.full[self._beside_mask(parts)], self.mask, self.at, self.location)

    def __setitem__(self, index: IndexLike, value: ArrayLike) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        value = self.operand(value)
        if len(parts) == 1 and isinstance(parts[0], Selection) and parts[0].dtype == np.bool_:
            value = u.where(_wide(self._mask_of(parts[0]), self.rest), to_dtype(value, self.dtype), self.full)
            parts = (Ellipsis,)
        OPERATORS.setitem(self.full, self._beside_mask(parts), value)

    def _mask_of(self, chosen: Selection) -> Result:
        if chosen.rest or chosen.at or self.at or not same_value(chosen.mask, self.mask):
            self.refuse("an index with a mask of another selection")
        return chosen.full

    def _beside_mask(self, parts: tuple[IndexLike, ...]) -> tuple[Result, ...]:
        """An index into the axes behind the selected ones, as an index of `full`."""
        if len(parts) and parts[0] is Ellipsis:
            return parts
        if (
            self.at
            or not parts
            or not (isinstance(parts[0], slice) and is_whole(parts[0]))
            or any(map(_is_array, parts))
        ):
            self.refuse("an index into the selected elements")
        return (*[slice(None)] * aval(self.mask).ndim, *parts[1:])


def _is_array(part: IndexLike) -> bool:
    if isinstance(part, Tracer):
        return isinstance(part, Selection) or part.ndim > 0
    return isinstance(part, (list, np.ndarray, bool, np.bool_))


def _wide(mask: ArrayLike, rest: int) -> Result:
    return reshape(mask, (*aval(mask).shape, *[1] * rest))


def _inside(x: ArrayLike, wide: ArrayLike) -> Result:
    """x with 1 where the mask does not hold: what is computed of it there is thrown away,
    and must not be infinite for its derivative.
    """
    have = aval(x)
    inside = u.where(wide, x, have.dtype.type(1))
    if have.weak and isinstance(inside, Tracer):
        inside.weaken()
    return inside if have.dtype.kind == "f" else x


def _beside(selection: Selection, x: ArrayLike) -> Result:
    """An array that spreads to a selection as one that spreads to its elements' whole.  Raises ShapeError."""
    shape, rest = aval(x).shape, selection.rest
    if len(shape) <= rest:
        return x
    place = len(shape) - rest - 1
    if len(shape) > selection.ndim or not is_one(shape[place]):
        raise ShapeError(
            f"an array of shape {shape} is computed with x[mask], or assigned to it, which has as many elements as "
            "the mask has True: how "
            "many that is is not known while tracing; select from an array of x's shape by the same mask (y[mask]), "
            "or use "
            "np.where(mask, y, x)",
            location=user_location(),
        )
    return reshape(x, (*shape[:place], *[1] * aval(selection.mask).ndim, *shape[place + 1 :]))


def select(x: ArrayLike, mask: ArrayLike, at: int = 0) -> Selection:
    """x[mask], as it is now; `at` axes of x lie before those of the mask."""
    seen = mask.seen()
    mask = Tracer(seen.interpreter, seen.value, seen.aval)
    rest = aval(x).ndim - aval(mask).ndim - at
    return Selection(u.where(_wide(mask, rest), x, aval(x).dtype.type(1)), mask, at, user_location())


def assigned(x: ArrayLike, mask: ArrayLike, at: int, value: ArrayLike) -> Result:
    """x with the elements where the mask holds replaced by `value`:
    a selection by the same mask, or what spreads to one.
    """
    rest = aval(x).ndim - aval(mask).ndim - at
    place = Selection(x, mask, at, None)
    if isinstance(value, Selection):
        value = place.operand(value)
    elif weak_kind(value) is None:
        shape = aval(value).shape
        extra = len(shape) - place.ndim
        if extra > 0 and all(map(is_one, shape[:extra])):
            value = reshape(value, shape[extra:])
        value = _beside(place, value)
    found = u.where(_wide(mask, rest), to_dtype(value, aval(x).dtype), x)
    if not same_shape(aval(found).shape, aval(x).shape):
        # written in two ways; where their values decide, the trace starts again for these extents
        if aval(found).shape == aval(x).shape:
            return reshape(found, aval(x).shape)
        rank = aval(found).ndim - aval(mask).ndim + 1
        raise ShapeError(
            f"a value of rank {rank} is assigned to x[mask] of rank {place.ndim}", location=user_location()
        )
    return found


# -- operators ---------------------------------------------------------------------------------------------------------
def _binary(name: str, reflected: bool) -> Callable[..., Any]:
    def method(self: Selection, other: ArrayLike) -> Result:
        return self.apply(ARITHMETIC[name], *((other, self) if reflected else (self, other)))

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Selection, other: ArrayLike) -> Result:
        OPERATORS.setitem(self.full, Ellipsis, ARITHMETIC[name](self.full, self.operand(other)), casting="same_kind")
        return self

    return method


def _unary(name: str) -> Callable[..., Any]:
    return lambda self: self.apply(ARITHMETIC[name], self)


def _matmul(self: Selection, other: ArrayLike) -> Result:
    self.refuse("@")


for _name in BINARY:
    setattr(Selection, f"__{_name}__", _binary(_name, False))
    setattr(Selection, f"__r{_name}__", _binary(_name, True))
    setattr(Selection, f"__i{_name}__", _in_place(_name))
Selection.__divmod__ = _binary("divmod", False)  # type: ignore[attr-defined]
Selection.__rdivmod__ = _binary("divmod", True)  # type: ignore[attr-defined]
for _name in COMPARISONS:
    setattr(Selection, f"__{_name}__", _binary(_name, False))
for _name in UNARY:
    setattr(Selection, f"__{_name}__", _unary(_name))
for _name in ("__matmul__", "__rmatmul__", "__imatmul__"):
    setattr(Selection, _name, _matmul)


# -- functions ---------------------------------------------------------------------------------------------------------
_ELEMENTWISE = frozenset({
    np.where, np.clip, np.round, np.around, np.fix, np.nan_to_num, np.isclose, np.real, np.imag, np.isreal, np.sinc,
})  # fmt: skip


def _reduction(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(s: Selection, axis: AxisLike = None, *args: ArrayLike, **kwargs: Any) -> Result:
        """Over all elements, over the selected ones, or along one of the other axes."""
        if args or not set(kwargs) <= {"dtype", "initial", "ddof", "keepdims", "axis"} or isinstance(axis, tuple):
            s.refuse(f"{name}() with these arguments")
        rank = aval(s.mask).ndim
        if axis is not None:
            axis = axis_index(axis, s.ndim)
        if axis is None or axis == s.at:
            if kwargs.pop("keepdims", False):
                s.refuse(f"{name}() with keepdims")
            if name in ("max", "min") and kwargs.get("initial") is None:
                s.refuse(
                    f"{name}(), which fails where none is selected (np.{name}(x, where=mask, initial=...) does not),"
                )
            axes = None if axis is None else tuple(range(s.at, s.at + rank))
            if axes == () or not aval(s.full).ndim:
                s.refuse(f"{name}() of a selection by a mask of rank 0")
            return function(s.full, axis=axes, where=s.wide(), **kwargs)
        if axis < s.at and not kwargs.get("keepdims"):
            s.refuse(f"{name}() over an axis before that of the mask")
        return Selection(
            function(s.full, axis=axis if axis < s.at else axis + rank - 1, **kwargs), s.mask, s.at, s.location
        )

    return run


def _astype(s: Selection, dtype: DTypeLike, *args: ArrayLike, **kwargs: Any) -> Result:
    return s.apply(lambda x: METHODS["astype"](x, dtype, *args, **kwargs), s)


_METHODS: dict[str, Callable[..., Any]] = {
    "astype": _astype,
    "copy": lambda s, *args, **kwargs: s.apply(copy, s),
    "clip": lambda s, *args, **kwargs: s.apply(selecting.clip, s, *args, **kwargs),
    "round": lambda s, *args, **kwargs: s.apply(rounding.round, s, *args, **kwargs),
    "conj": lambda s: s.apply(u.unchanged, s),
    "fill": lambda s, value: s.__setitem__(Ellipsis, value),
    **{name: _reduction(name, getattr(reductions, name)) for name in ("sum", "prod", "mean", "var", "std", "all", "any",
    "max", "min")},
}  # fmt: skip
_METHODS["amax"], _METHODS["amin"] = _METHODS["max"], _METHODS["min"]
