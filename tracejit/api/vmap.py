"""`vmap`: a function of one element as a function of arrays of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from tracejit.api.option_checks import expect
from tracejit.api.transform import Call, Owner, array_leaf, checked_function, compiled_like, name_of, result_leaves
from tracejit.ir.extents import Dim
from tracejit.support.errors import ShapeError, UserError
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, unflatten
from tracejit.tracer.batch import batch_pairs, spread
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.redirect import prepared

__all__ = ["vmap"]


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
) -> Callable[..., Any]:
    """Map `function` over an axis of its arguments.

    in_axes: which axis of each argument is mapped: an integer, None (the argument is the same for all elements), or a
    tuple with an entry for each positional argument, each again a pytree of integers and None that is a prefix of the
    argument's.  Keyword arguments are mapped over axis 0.
    out_axes: where the mapped axis goes in the results, a prefix of the result's pytree; None for results that do not
    vary.
    axis_name: what `tj.lax.psum`, `axis_index` and relatives call the mapped axis: anything that can be a key.
    axis_size: the extent of the mapped axis, needed only where no argument has one.

    A jitted function mapped is compiled too, and so is one that decides by what differs from element to element
    (`if row[0] > 0:`, `while`): as `tj.jit(tj.vmap(function))`, which is to be preferred where it is called often.

    Raises: OptionError for axes that are none; ShapeError where an argument lacks
    the axis or extents differ; UserError where in_axes do not fit the arguments; TracerError where the function changes
    an argument in place.
    Source: JAX's vmap.

    >>> import numpy as np, tracejit as tj
    >>> tj.vmap(lambda row, shift: row.sum() + shift, in_axes=(0, None))(np.ones((2, 3)), 1.0)
    array([4., 4.])
    """
    checked_function("vmap", function)
    expect(isinstance(axis_name, Hashable), "vmap", "axis_name", axis_name, "a name, or anything that can be a key")
    fits = _are_axes(in_axes) and not isinstance(in_axes, dict)
    expect(fits, "vmap", "in_axes", in_axes, "an integer, None, or a tuple with an entry for each argument")
    expect(
        _are_axes(out_axes), "vmap", "out_axes", out_axes, "an integer, None, or a container of them like the result"
    )
    expect(_is_extent(axis_size), "vmap", "axis_size", axis_size, "the extent of the mapped axis, or None")

    @functools.wraps(function)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        return _run(function, in_axes, out_axes, axis_size, axis_name, args, kwargs)

    mapped.__name__ = mapped.__qualname__ = f"vmap_{name_of(function)}"
    return compiled_like(function, mapped)


def _is_extent(x: Any) -> bool:
    if isinstance(x, (int, np.integer)):
        return not isinstance(x, bool) and int(x) >= 0
    return x is None or isinstance(x, Dim)


def _are_axes(prefix: Any) -> bool:
    """Whether something is made of integers and None, as `expand_axes` takes it."""
    if isinstance(prefix, dict):
        prefix = tuple(prefix.values())
    if isinstance(prefix, (tuple, list)):
        return all(map(_are_axes, prefix))
    return prefix is None or type(prefix) is int


def _run(
    function: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    axis_size: int | None,
    axis_name: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    traced = prepared(function)

    def call(positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return traced(*positional, **named)

    c = Call.of(call, (args, kwargs), {}, (0, 1))
    describe = functools.partial(_describe, c)
    dims = _argument_axes(in_axes, c.trees)
    # What is not mapped and is no array of numbers (a string, a function, a number) goes through untouched.
    places = [
        n
        for n, d in enumerate(dims)
        if d is not None or (isinstance(c.leaves[n], np.ndarray) and c.leaves[n].dtype.kind in "biufc")
    ]
    for n in places:
        array_leaf(c.leaves[n], "vmap", describe(n))
        if dims[n] is not None:
            dims[n] = _checked_axis(aval_of_argument(c.leaves[n]).shape, dims[n], describe, n)
    tree: list[TreeDef] = []

    def flat(*tracers: Any) -> list[Any]:
        filled = list(c.leaves)
        for n, t in zip(places, tracers, strict=True):
            filled[n] = t
        leaves, out_tree = result_leaves("vmap", function, c.run(filled))
        tree.append(out_tree)
        return leaves

    mapped = [c.leaves[n] for n in places]
    axes = [dims[n] for n in places]
    pairs = batch_pairs(flat, mapped, axes, axis_size, describe=lambda k: describe(places[k]), axis_name=axis_name)
    size = (
        axis_size
        if axis_size is not None
        else next(aval_of_argument(c.leaves[n]).shape[d] for n, d in enumerate(dims) if d is not None)
    )
    targets = expand_axes(out_axes, tree[0], "out_axes", "the result")
    own = Owner(c.leaves)
    outs = [own(_placed(value, axis, size, target)) for (value, axis), target in zip(pairs, targets, strict=True)]
    return unflatten(tree[0], outs)


def _describe(c: Call, position: int) -> str:
    """An argument's name: `c` has the positional arguments as one tuple and the named ones as one dict."""
    path = c.describe(position)
    if path.startswith("2"):
        return path[1:]
    number, _, rest = path[2:].partition("]")
    return f"{int(number) + 1}{rest}"


def _placed(value: Any, axis: int | None, size: Any, target: int | None) -> Any:
    if target is not None:
        return spread(value, axis, size, target)
    if axis is not None:
        raise ShapeError(
            "vmap: out_axes is None for a result that varies over the mapped axis; give the axis it goes to",
            location=user_location(),
        )
    return value


def _checked_axis(shape: tuple[Any, ...], axis: Any, describe: Callable[[int], str], position: int) -> int:
    if not -len(shape) <= axis < len(shape):
        if not shape:
            what = "is a number, which has no axis to map over; use None in in_axes for it"
        else:
            what = f"has shape {shape} and no axis {axis} to map over"
        raise ShapeError(f"vmap: argument {describe(position)} {what}", location=user_location())
    return axis % len(shape)


def _argument_axes(in_axes: Any, trees: tuple[TreeDef, ...]) -> list[Any]:
    positional, named = trees
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(positional.children):
        raise UserError(
            f"vmap: in_axes has {len(in_axes)} entries for {len(positional.children)} positional arguments",
            location=user_location(),
        )
    return expand_axes(in_axes, positional, "in_axes", "the arguments") + [0] * named.leaves


def expand_axes(prefix: Any, tree: TreeDef, name: str, what: str) -> list[Any]:
    """One axis (or None) for each leaf of `tree`, from a pytree of axes that is a prefix of it."""
    if prefix is None or (type(prefix) is int):
        return [prefix] * tree.leaves
    children: Any = None
    if tree.kind == "dict" and isinstance(prefix, dict) and set(prefix) == set(tree.data):
        children = [prefix[k] for k in tree.data]
    elif (
        isinstance(prefix, (tuple, list))
        and tree.kind not in ("leaf", "none", "dict")
        and len(prefix) == len(tree.children)
    ):
        children = list(prefix)
    if children is None:
        raise UserError(f"vmap: {name} {prefix!r} does not fit the structure of {what}", location=user_location())
    out: list[Any] = []
    for part, child in zip(children, tree.children, strict=True):
        out += expand_axes(part, child, name, what)
    return out
