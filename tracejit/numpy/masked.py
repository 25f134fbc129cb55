"""`x[mask]` with a mask that is not known while tracing: how many elements it has is not known either.

A `Selection` stands for it: all elements of x and the mask, of which the selected ones count. It can be computed with
elementwise, reduced, and assigned to where it came from, `x[mask] *= 2` and `x[mask] = np.sqrt(y[mask])`. Where its
shape is wanted it becomes the array of the selected elements (`counts.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracejit.ir.extents import is_one, same_shape
from tracejit.ir.scalar import kernel_dtype
from tracejit.numpy import reductions, rounding, selecting, ufuncs as u
from tracejit.numpy.axes import axis_index, is_whole
from tracejit.numpy.counts import is_changed_here, may_count, selected, with_selected
from tracejit.numpy.number_checks import check_none
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import copy
from tracejit.primitives.reduction import extreme
from tracejit.primitives.shape import reshape
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import RefusedByNumPy, ShapeError, UnsupportedError
from tracejit.support.source import Location, user_location
from tracejit.support.typing import ArrayLike, AxisLike, DTypeLike, IndexLike, Result
from tracejit.tracer.failures import empty_reduction
from tracejit.tracer.interpreter import current_interpreter, use_interpreter
from tracejit.tracer.operators import ARITHMETIC, OPERATORS
from tracejit.tracer.python_operators import BINARY, COMPARISONS, UNARY
from tracejit.tracer.recorder import with_masks_by_value
from tracejit.tracer.restarts import MasksByValue
from tracejit.tracer.same import same_value
from tracejit.tracer.tables import METHODS, UFUNCS
from tracejit.tracer.tracer import Tracer

__all__ = ["Selection", "assigned", "select"]


_CLASS: Any = vars(object)["__class__"]


class Selection(Tracer):
    """x[mask]: of `full`, an array with the axes of x, the elements where `mask` holds.

    at: how many axes of `full` lie before those of the mask, which the selection has as one axis.
    Asked for what only an array has (a shape, a value) it becomes one; outside of programs it refuses.
    """

    __slots__ = ()

    def __init__(self, full: ArrayLike, mask: ArrayLike, at: int, location: Location | None) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.interpreter = current_interpreter()
        self.selection = full, mask, at
        self.absence = self.mixed = None
        self.location = location
        self.is_array = True

    @property
    def full(self) -> Result:
        return self.selection[0]

    @property
    def mask(self) -> Result:
        return self.selection[1]

    @property
    def at(self) -> int:
        return self.selection[2]

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

    def become(self, what: str, location: Location | None = None) -> Result:
        """Be the array of the selected elements from now on, for something that needs the shape.

        Raises: MasksByValue where the trace can start again with the mask known, UnsupportedError outside of programs.
        """
        if type(self) is not Selection:  # it has happened
            return self
        mask = self.mask
        if (
            with_masks_by_value() is False
            and isinstance(mask, Tracer)
            and mask.interpreter.alive
            and mask.known() is not None
        ):
            raise MasksByValue
        if may_count():
            if is_changed_here(self.full, self.interpreter):
                raise UnsupportedError(
                    f"x[mask] is changed in a loop or branch of the program, and {what} asks for its shape there; ask "
                    "before (n = len(x[mask]))",
                    location=location or user_location(),
                )
            with use_interpreter(self.interpreter):
                made = selected(self.full, mask, self.at)
            _CLASS.__set__(self, Tracer)
            Tracer.__init__(self, made.interpreter, made.value, made.aval)
            return self
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

    def returned(self) -> None:
        """It is a result of the traced function."""
        self.become("returning it", self.location)

    # -- what a Tracer has ---------------------------------------------------------------------------------------------
    @property
    def aval(self) -> Result:
        return self.become("what is done with it here").aval

    @property
    def value(self) -> Result:
        return self.become("what is done with it here").value

    @property
    def shape(self) -> Result:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.become("its shape").shape

    @property
    def size(self) -> Result:
        return self.become("its size").size

    @property
    def nbytes(self) -> Result:
        return self.become("its size").nbytes

    def __len__(self) -> int:
        return len(self.become("len()"))

    def __iter__(self) -> Result:
        return iter(self.become("a loop over it"))

    def __bool__(self) -> bool:
        return bool(self.become("its truth value"))

    def __int__(self) -> int:
        return int(self.become("int()"))

    def __float__(self) -> float:
        return float(self.become("float()"))

    def __index__(self) -> int:
        return operator.index(self.become("an index"))

    def __array__(self, dtype: DTypeLike = None, copy: Any = None) -> Result:
        return self.become("np.asarray").__array__(dtype, copy)

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else format(self.become("formatting"), spec)

    def __hash__(self) -> int:
        raise RefusedByNumPy(
            "a traced array is unhashable, as np.ndarray is; look it up by something else", location=user_location()
        )

    def __repr__(self) -> str:
        return f"Tracer<{self.dtype} selected by {aval(self.mask)}>"

    def __getattr__(self, name: str) -> Result:
        if name in ("_aval", "_value", "_version", "root", "index"):
            return getattr(self.become("what is done with it here"), name)
        if name in _METHODS:
            return lambda *args, **kwargs: _METHODS[name](self, *args, **kwargs)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"an array has no attribute {name!r}")
        return getattr(self.become(f"{name}()" if callable(getattr(np.ndarray, name)) else name), name)

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
        if x is None or weak_kind(x) is not None:
            return x
        x = _beside(self, as_array(x))
        return _inside(x, self.wide()) if isinstance(x, Tracer) else x

    def goes_with(self, x: ArrayLike) -> bool:
        """Whether x can be computed with where it is: a selection by the same mask, what spreads to one, a number."""
        if isinstance(x, Selection):
            return x.rest == self.rest and same_value(x.mask, self.mask)
        if x is None or weak_kind(x) is not None:
            return True
        shape = aval(as_array(x)).shape
        place = len(shape) - self.rest - 1
        return place < 0 or (len(shape) <= self.ndim and isinstance(shape[place], int) and shape[place] == 1)

    def apply(self, function: Callable[..., Any], *args: ArrayLike, **kwargs: Any) -> Result:
        """An elementwise function of selections by this mask, arrays that spread to it, and numbers; of others they
        are arrays.
        """
        if may_count() and not all(map(self.goes_with, (*args, *kwargs.values()))):
            for x in (*args, *kwargs.values()):
                if isinstance(x, Selection):
                    x.become("what is done with it here")
            return function(*args, **kwargs)
        found = function(*map(self.operand, args), **{name: self.operand(x) for name, x in kwargs.items()})
        before = aval(self.mask).ndim + self.rest
        results = [
            Selection(x, self.mask, aval(x).ndim - before, self.location)
            for x in (found if isinstance(found, tuple) else (found,))
        ]
        return tuple(results) if isinstance(found, tuple) else results[0]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: ArrayLike, **kwargs: Any) -> Result:
        if method != "__call__" or not set(kwargs) <= {"dtype", "casting"} or ufunc.signature is not None:
            self.become(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
            return getattr(ufunc, method)(*inputs, **kwargs)
        return self.apply(lambda *args: ufunc(*args, **kwargs), *inputs)

    def __array_function__(self, func: Any, types: Any, args: ArrayLike, kwargs: Any) -> Result:
        operands = len(args) + len(kwargs)
        if (
            operands <= _ELEMENTWISE.get(func, 0)
            and kwargs.get("out") is None
            and not (func is np.where and operands == 1)
        ):
            chosen = next(x for x in (*args, *kwargs.values()) if isinstance(x, Selection))
            return chosen.apply(func, *args, **kwargs)
        reduce = _METHODS.get(func.__name__) if getattr(func, "__module__", "") == "numpy" else None
        if reduce is None or not args or args[0] is not self:
            self.become(f"np.{func.__name__}")
            return func(*args, **kwargs)
        return reduce(*args, **kwargs)

    def __getitem__(self, index: IndexLike) -> Result:
        parts = index if isinstance(index, tuple) else (index,)
        if self._is_mask_of_this(parts):
            return select(self.full, u.logical_and(self.mask, parts[0].full))
        beside = self._beside_mask(parts)
        if beside is None:
            return self.become("an index into the selected elements")[index]
        return Selection(self.full[beside], self.mask, self.at, self.location)

    def __setitem__(self, index: IndexLike, value: ArrayLike) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        masked = self._is_mask_of_this(parts)
        beside = (Ellipsis,) if masked else self._beside_mask(parts)
        # In a loop or branch another iteration, or the other side, may ask for the shape: all of them have an array.
        outside = self.interpreter is not current_interpreter()
        if beside is None or (may_count() and (outside or not self.goes_with(value))):
            self.become("an index into the selected elements")[index] = value
            return
        value = self.operand(value)
        if masked:
            value = u.where(_wide(parts[0].full, self.rest), to_dtype(value, self.dtype), self.full)
        OPERATORS.setitem(self.full, beside, value)

    def _is_mask_of_this(self, parts: tuple[IndexLike, ...]) -> bool:
        """Whether an index is one mask, of the selected elements."""
        if len(parts) != 1 or not isinstance(parts[0], Selection) or parts[0].dtype != np.bool_:
            return False
        chosen = parts[0]
        return not (chosen.rest or chosen.at or self.at) and same_value(chosen.mask, self.mask)

    def _beside_mask(self, parts: tuple[IndexLike, ...]) -> tuple[Result, ...] | None:
        """An index into the axes behind the selected ones, as an index of `full`; None if it is none."""
        if not parts or any(map(_is_array, parts)):
            return None
        if parts[0] is Ellipsis:
            return parts if sum(part is not None for part in parts[1:]) <= self.rest else None
        if self.at or not (isinstance(parts[0], slice) and is_whole(parts[0])):
            return None
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
    return inside if have.dtype.kind in "fc" else x


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
    if may_count() and not at and isinstance(mask, Tracer) and not place.goes_with(value):
        return with_selected(x, mask, as_array(value))
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
        if may_count() and not self.goes_with(other):
            return getattr(self.become("what is done with it here"), f"__i{name}__")(other)
        OPERATORS.setitem(self.full, Ellipsis, ARITHMETIC[name](self.full, self.operand(other)), casting="same_kind")
        return self

    return method


def _unary(name: str) -> Callable[..., Any]:
    return lambda self: self.apply(ARITHMETIC[name], self)


def _matmul(name: str) -> Callable[..., Any]:
    return lambda self, other: getattr(self.become("@"), name)(other)


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
    setattr(Selection, _name, _matmul(_name))


# -- functions ---------------------------------------------------------------------------------------------------------
_ELEMENTWISE: dict[Callable[..., Any], int] = {
    np.where: 3, np.clip: 3, np.round: 2, np.around: 2, np.fix: 1, np.nan_to_num: 5, np.isclose: 5, np.real: 1,
    np.imag: 1, np.isreal: 1, np.sinc: 1,
}  # fmt: skip
"""Functions, and how many operands they have at most: what comes behind these is the array that the result goes to."""


def _reduction(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(s: Selection, axis: AxisLike = None, *args: ArrayLike, **kwargs: Any) -> Result:
        """Over all elements, over the selected ones, or along one of the other axes."""
        known = set(kwargs) <= {"dtype", "initial", "ddof", "keepdims", "axis"}
        if args or not known or isinstance(axis, tuple) or kwargs.get("initial", 0) is None:
            return getattr(s.become(f"{name}() with these arguments"), name)(axis, *args, **kwargs)
        rank = aval(s.mask).ndim
        if axis is not None:
            axis = axis_index(axis, s.ndim)
        if axis is None or axis == s.at:
            axes = None if axis is None else tuple(range(s.at, s.at + rank))
            if kwargs.get("keepdims") or axes == () or not aval(s.full).ndim:
                array = s.become(f"{name}() with keepdims, or by a mask of rank 0,")
                return getattr(array, name)(axis, **kwargs)
            kwargs.pop("keepdims", None)
            if name in ("max", "min") and kwargs.get("initial") is None:
                if not may_count():
                    s.become(
                        f"{name}(), which fails where none is selected (np.{name}(x, where=mask, initial=...) does "
                        "not),"
                    )
                check_none(u.logical_not(reductions.any(s.mask)), empty_reduction(name))
                kwargs["initial"] = extreme(kernel_dtype(s.dtype), -1 if name == "max" else 1)
            return function(s.full, axis=axes, where=s.wide(), **kwargs)
        if axis < s.at and not kwargs.get("keepdims"):
            return getattr(s.become(f"{name}() over an axis before that of the mask"), name)(axis, **kwargs)
        return Selection(
            function(s.full, axis=axis if axis < s.at else axis + rank - 1, **kwargs), s.mask, s.at, s.location
        )

    return run


def _astype(s: Selection, dtype: DTypeLike, *args: ArrayLike, **kwargs: Any) -> Result:
    return s.apply(lambda x: METHODS["astype"](x, dtype, *args, **kwargs), s)


def _are_operands(args: tuple[ArrayLike, ...], kwargs: dict[str, Any], most: int) -> bool:
    """Whether arguments are at most so many operands: what comes behind these is where the result goes."""
    return len(args) + len(kwargs) <= most and kwargs.keys().isdisjoint(("out", "dtype", "where", "casting"))


def _elementwise(name: str, function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """A method of at most so many operands; what comes behind these is the array that the result goes to."""

    def run(s: Selection, *args: ArrayLike, **kwargs: Any) -> Result:
        if not _are_operands(args, kwargs, most):
            return getattr(s.become(f"{name}() with these arguments"), name)(*args, **kwargs)
        return s.apply(function, s, *args, **kwargs)

    return run


_METHODS: dict[str, Callable[..., Any]] = {
    "astype": _astype,
    "copy": lambda s, *args, **kwargs: s.apply(copy, s),
    "clip": _elementwise("clip", selecting.clip, 2),
    "round": _elementwise("round", rounding.round, 1),
    "conj": _elementwise("conj", lambda x: UFUNCS[np.conjugate](x), 0),
    "fill": lambda s, value: s.__setitem__(Ellipsis, value),
    **{name: _reduction(name, getattr(reductions, name)) for name in ("sum", "prod", "mean", "var", "std", "all", "any",
    "max", "min")},
}  # fmt: skip
_METHODS["amax"], _METHODS["amin"] = _METHODS["max"], _METHODS["min"]
