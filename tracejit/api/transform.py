"""What the transformations' front ends share: arguments to leaves and names, results back to NumPy's types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tracejit.api.apart import apart
from tracejit.api.array import Array, adopt
from tracejit.api.jit import JitFunction, jit
from tracejit.ir.extents import Dim
from tracejit.support.dtypes import canonical, weak_kind
from tracejit.support.errors import ConcretizationError, DtypeError, TracerError, UserError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, flatten_with_paths, unflatten
from tracejit.support.typing import has_aval
from tracejit.tracer.absence import used
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import current_interpreter, eager, in_program
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.redirect import prepared
from tracejit.tracer.tracer import Tracer

__all__ = [
    "Call", "Owner", "array_leaf", "checked_function", "compiled_like", "is_array", "name_of", "of_some_leaves",
    "result_leaves",
]  # fmt: skip


def checked_function(transformation: str, function: Any) -> None:
    """Raises UserError if `function` is not callable."""
    if not callable(function):
        raise UserError(
            f"tj.{transformation} wants a function, not {type(function).__name__}", location=user_location()
        )


def compiled_like(function: Any, derived: Callable[..., Any]) -> Callable[..., Any]:
    """What a transformation made of `function`, compiled as a whole if `function` is jitted.

    If it turns out to decide by what differs between the elements that `vmap` maps over, where nothing is compiled, it
    is compiled nevertheless; under another transformation it is traced apart.
    """
    compiled: list[Callable[..., Any]] = []

    @functools.wraps(derived)
    def run(*args: Any, **kwargs: Any) -> Any:
        if in_program():
            return derived(*args, **kwargs)
        if compiled and current_interpreter() is eager:
            return compiled[0](*args, **kwargs)
        try:
            return derived(*args, **kwargs)
        except ConcretizationError as error:
            try:
                if current_interpreter() is not eager:
                    return _traced_apart(derived, args, kwargs)
                again = jit(derived)
                result = again(*args, **kwargs)
            except ConcretizationError:
                raise error from None
        compiled.append(again)
        return result

    return function.like(run) if isinstance(function, JitFunction) else run


def _traced_apart(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a function that is traced as a program is, which is then run operation by operation."""
    leaves, tree = flatten((args, kwargs))
    places = [k for k, x in enumerate(leaves) if isinstance(x, Tracer) or (is_array(x) and weak_kind(x) is None)]
    flat, out = of_some_leaves("vmap", function, function, leaves, tree, places)
    given = [leaves[k] for k in places]
    staged = apart(flat, [aval_of_argument(x) for x in given], f"{name_of(function)}, mapped by vmap,")
    return unflatten(out[0], staged.run([*given, *staged.constants]))


def of_some_leaves(
    transformation: str,
    function: Callable[..., Any],
    run: Callable[..., Any],
    leaves: Sequence[Any],
    tree: TreeDef,
    places: Sequence[int],
) -> tuple[Callable[..., list[Any]], list[TreeDef]]:
    """A function of the leaves at some places alone, of a call's (arguments, keywords), to leaves of the result; and
    where it puts the result's structure when it runs.

    run: what is called, which messages know as `function`.
    """
    out: list[TreeDef] = []

    def flat(*given: Any) -> list[Any]:
        filled = list(leaves)
        for k, x in zip(places, given, strict=True):
            filled[k] = x
        positional, named = unflatten(tree, filled)
        made, found = result_leaves(transformation, function, run(*positional, **named))
        out[:] = [found]
        return made

    return flat, out


def name_of(function: Any) -> str:
    """A function's name, as messages show it."""
    return getattr(function, "__name__", type(function).__name__)


def is_array(x: Any) -> bool:
    """Whether a leaf is something that can be traced: a traced or NumPy array, a NumPy or Python number."""
    return isinstance(x, (Tracer, np.ndarray, np.generic)) or weak_kind(x) is not None or has_aval(x)


def array_leaf(x: Any, transformation: str, path: str) -> Any:
    """A leaf that is to be traced, checked.

    Raises: TracerError for what is not an array, DtypeError for dtypes the IR has not.
    """
    if isinstance(x, Tracer):
        return x
    if not is_array(x):
        raise TracerError(
            f"{transformation}: argument {path} is a {type(x).__name__}, not an array or a number",
            location=user_location(),
        )
    if isinstance(x, (np.ndarray, np.generic)):
        try:
            canonical(x.dtype)
        except DtypeError as error:
            raise DtypeError(f"{transformation}: argument {path}: {error.message}", location=user_location()) from None
    return x


@frozen(eq=False)
class Call:
    """The arguments of one call: the leaves that are transformed,
    and how the function is called with others in their place.

    The function sees traced versions of NumPy's functions that make arrays, as under `jit`.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    argnums: tuple[int, ...]
    leaves: list[Any]
    trees: tuple[TreeDef, ...]
    outside: dict[int, Any]  # arrays that the function read from elsewhere, under their identities

    @staticmethod
    def of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Sequence[int]) -> Call:
        leaves: list[Any] = []
        trees: list[TreeDef] = []
        for n in argnums:
            part, tree = flatten(args[n])
            leaves += part
            trees.append(tree)
        outside: dict[int, Any] = {}
        return Call(prepared(function, outside), args, kwargs, tuple(argnums), leaves, tuple(trees), outside)

    def run(self, leaves: Sequence[Any]) -> Any:
        """The function's result with other leaves."""
        args = list(self.args)
        for n, part in zip(self.argnums, self.split(leaves), strict=True):
            args[n] = part
        return self.function(*args, **self.kwargs)

    def owner(self, also: Sequence[Any] = ()) -> Owner:
        """What makes results of this call, which takes other arrays too, the caller's own."""
        return Owner([*flatten((self.args, self.kwargs))[0], *also], outside=self.outside)

    def split(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Leaves as one pytree for each transformed argument."""
        out: list[Any] = []
        at = 0
        for tree in self.trees:
            out.append(unflatten(tree, leaves[at : at + tree.leaves]))
            at += tree.leaves
        return tuple(out)

    def describe(self, position: int) -> str:
        """`2['w']`: a leaf as the user would name it."""
        for n, tree in zip(self.argnums, self.trees, strict=True):
            if position < tree.leaves:
                path, _ = flatten_with_paths(self.args[n])[position]
                return f"{n + 1}{path}"
            position -= tree.leaves
        return "?"


def result_leaves(transformation: str, function: Any, result: Any) -> tuple[list[Any], TreeDef]:
    """Leaves and structure of a function's result.  Raises TracerError for a leaf that is no array."""
    leaves, tree = flatten(result)
    leaves = [OPERATORS.number_of_extents(x) if isinstance(x, Dim) else x for x in leaves]
    for x in leaves:
        used(x)  # a transformation has arrays, and none that may be None
        if not is_array(x):
            raise TracerError(
                f"{transformation}: {name_of(function)} returned {type(x).__name__}; results are arrays, numbers, or "
                "containers of them "
                "(return other things with has_aux=True where the transformation takes it)",
                location=user_location(),
            )
    return leaves, tree


class Owner:
    """Results as the caller gets them: outside of any trace arrays of their own and, for rank 0, NumPy scalars.

    Where a tj.Array is among the arguments, results are tj.Arrays.
    """

    def __init__(
        self, inputs: Sequence[Any], arrays: bool = False, outside: Mapping[int, Any] = MappingProxyType({})
    ) -> None:
        self._eager = current_interpreter() is eager
        self._taken = {id(x) for x in inputs}
        self._outside = outside  # the function may be run after this
        self.arrays = arrays or any(type(x) is Array for x in inputs)

    def __call__(self, x: Any) -> Any:
        if isinstance(x, Tracer) and current_interpreter() is not eager:
            return current_interpreter().fresh(x)  # it may be an argument
        if not self._eager or isinstance(x, (Tracer, Array)) or not is_array(x):
            return x
        made = self._own(x)
        return adopt(made) if self.arrays and made.dtype.kind != "V" else made

    def _own(self, x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x if isinstance(x, np.generic) else np.asarray(x)[()]
        if x.ndim == 0:
            return x[()]
        if (
            id(x) in self._taken
            or id(x) in self._outside
            or x.base is not None
            or not x.flags.writeable
            or not x.flags.c_contiguous
        ):
            return np.array(x, order="C")
        self._taken.add(id(x))
        return x
