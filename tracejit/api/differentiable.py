"""Calls whose derivatives are asked for: their arguments as primals, checked, and what the function returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.api.bodies import check_none_mixed
from tracejit.api.option_checks import flag, positions
from tracejit.api.transform import (
    Call,
    Owner,
    array_leaf,
    checked_function,
    name_of,
    result_leaves,
)
from tracejit.ir.types import ShapedArray
from tracejit.primitives.shape import broadcast_in_dim
from tracejit.support.dtypes import weak_kind
from tracejit.support.errors import DtypeError, TracerError, UserError
from tracejit.support.nodes import frozen
from tracejit.support.source import user_location
from tracejit.support.tree import flatten, unflatten
from tracejit.tracer.absence import used
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.linearize import Linearized, linearize as flat_linearize
from tracejit.tracer.tracer import Tracer

__all__ = [
    "Like",
    "Prepared",
    "check_kinds",
    "checked_argnums",
    "checked_options",
    "concrete_shape",
    "float0",
    "linearized",
    "prepare",
    "zeros_like",
]


float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of derivatives with respect to integers and booleans: there is nothing in them."""


@frozen(eq=False)
class Prepared:
    """A call whose differentiable leaves are `primals`; the function's last run left its results' structure in
    `out`.
    """

    call: Call
    transformation: str
    smooth: tuple[int, ...]  # positions of the differentiable leaves
    has_aux: bool
    out: dict[str, Any]

    @property
    def primals(self) -> list[Any]:
        return [self.call.leaves[n] for n in self.smooth]

    def flat(self, *tracers: Any) -> list[Any]:
        """Leaves of the result, then those of aux."""
        leaves = list(self.call.leaves)
        for n, t in zip(self.smooth, tracers, strict=True):
            leaves[n] = t
        result, aux = self.call.run(leaves), None
        if self.has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TracerError(
                    f"{self.transformation}: with has_aux=True {name_of(self.call.function)} returns a pair (result, "
                    "aux), "
                    f"not {type(result).__name__}",
                    location=user_location(),
                )
            result, aux = result
        main, self.out["tree"] = result_leaves(self.transformation, self.call.function, result)
        extra, self.out["aux"] = flatten(aux)
        for x in extra:
            used(x)  # as those of the result
        check_none_mixed(extra)
        self.out["weak"] = [isinstance(x, Tracer) and x.aval.weak for x in extra]
        self.out["main"] = len(main)
        return main + extra

    def describe(self, position: int) -> str:
        return self.call.describe(self.smooth[position])

    def aux(self, values: Sequence[Any], own: Owner) -> Any:
        """The aux result from the values after the main ones."""
        found = [own(x) for x in values[self.out["main"] :]]
        for x, weak in zip(found, self.out["weak"], strict=True):
            if weak and isinstance(x, Tracer):
                x.weaken()
        return unflatten(self.out["aux"], found)

    def result(self, values: Sequence[Any], own: Owner) -> Any:
        return unflatten(self.out["tree"], [own(x) for x in values[: self.out["main"]]])

    def spread(self, parts: Sequence[Any], own: Owner) -> list[Any]:
        """One derivative for each leaf, zeros for None and float0 for the others."""
        made = {
            n: part if part is not None else zeros_like(x)
            for n, x, part in zip(self.smooth, self.primals, parts, strict=True)
        }
        return [
            own(made[n]) if n in made else np.zeros(concrete_shape(x), float0) for n, x in enumerate(self.call.leaves)
        ]


def concrete_shape(x: Any) -> tuple[int, ...]:
    """The shape as numbers."""
    return tuple(int(n) for n in aval_of_argument(x).shape)


def zeros_like(like: Any) -> Any:
    """Zeros of the shape and dtype of an argument."""
    aval = aval_of_argument(like)
    return broadcast_in_dim(aval.dtype.type(0), aval.shape, ())


def prepare(transformation: str, call: Call, has_aux: bool, allow_int: bool) -> Prepared:
    """Raises DtypeError for leaves that have no derivative (unless `allow_int`),
    TracerError for leaves that are no arrays.
    """
    smooth: list[int] = []
    for n, x in enumerate(call.leaves):
        path = call.describe(n)
        array_leaf(x, transformation, path)
        aval = aval_of_argument(x)
        if aval.dtype.kind in "fc":
            smooth.append(n)
        elif not allow_int:
            how = f"pass {float(x)}" if type(x) is int else "pass x.astype(float)"
            kind = f"the number {x}" if weak_kind(x) is not None else str(aval)
            raise DtypeError(
                f"{transformation}: argument {path} is {kind}, and derivatives are taken with respect to "
                f"floating-point numbers; {how}, "
                "or choose other arguments with argnums=",
                location=user_location(),
            )
    return Prepared(call, transformation, tuple(smooth), has_aux, {})


def check_kinds(name: str, holomorphic: bool, inputs: Sequence[Any], outputs: Sequence[Any], *, forward: bool) -> None:
    """Raises: DtypeError for results, or in forward mode arguments, that are complex without
    `holomorphic`, or real with it.
    """
    asked = [("argument", x) for x in inputs if forward or holomorphic]
    asked += [("result", x) for x in outputs if not forward or holomorphic]
    for what, x in asked:
        aval = aval_of_argument(x)
        if holomorphic and aval.dtype.kind != "c":
            raise DtypeError(
                f"{name} with holomorphic=True is for complex numbers; the {what} is {aval}", location=user_location()
            )
        if not holomorphic and aval.dtype.kind == "c":
            raise DtypeError(
                f"{name}: the {what} is {aval}; the derivative of a holomorphic function is asked for by "
                "holomorphic=True, others are those of two real functions: take np.real and np.imag apart",
                location=user_location(),
            )


def checked_options(transformation: str, function: Any, argnums: Any, **flags: Any) -> tuple[int, ...]:
    """The numbers in `argnums`.   Raises: UserError for a function that is none; OptionError."""
    checked_function(transformation, function)
    for name, given in flags.items():
        flag(transformation, name, given)
    return positions(transformation, "argnums", argnums)


def checked_argnums(transformation: str, argnums: tuple[int, ...], args: tuple[Any, ...]) -> tuple[int, ...]:
    """Positions of the arguments of a call, from 0 on."""
    for n in argnums:
        if not -len(args) <= n < len(args):
            raise UserError(
                f"{transformation}: argnums {n} with {len(args)} positional arguments", location=user_location()
            )
    out = tuple(n % len(args) for n in argnums)
    if len(set(out)) != len(out):
        raise UserError(f"{transformation}: argnums {argnums!r} names an argument twice", location=user_location())
    return out


def linearized(c: Prepared) -> Linearized:
    """The linear function of a call at its primals."""
    return flat_linearize(c.flat, c.primals, name=c.transformation, describe=c.describe)


@frozen(eq=False)
class Like:
    """Something with an abstract value and nothing else."""

    aval: ShapedArray
