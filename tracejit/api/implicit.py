"""Solutions of equations, with derivatives by the implicit function theorem: custom_root, custom_linear_solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracejit.api.apart import apart
from tracejit.api.bodies import lying
from tracejit.api.option_checks import flag
from tracejit.api.transform import array_leaf, checked_function, name_of, result_leaves
from tracejit.ir.types import ShapedArray
from tracejit.primitives.custom import stop_gradient
from tracejit.primitives.elementwise import convert
from tracejit.primitives.implicit import Implicit, LinearSystem, RootOf
from tracejit.support.dtypes import short_name, weak_kind
from tracejit.support.errors import DtypeError, ShapeError, TracerError
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, flatten_like, unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.interpreter import bind
from tracejit.tracer.linearize import evaluate_jaxpr, linearize
from tracejit.tracer.redirect import prepared
from tracejit.tracer.tracer import Tracer
from tracejit.tracer.transpose import backward_pass

__all__ = ["custom_linear_solve", "custom_root"]


class _Space:
    """What x and f(x) are: a structure of arrays of floats, whose leaves are `values`."""

    def __init__(self, what: str, given: Any) -> None:
        leaves, self.tree = flatten(given)
        self.what = what
        self.values = [_floats(what, x) for x in leaves]
        self.avals = [aval_of_argument(x).strong() for x in self.values]

    def __len__(self) -> int:
        return len(self.avals)

    def leaves_of(self, found: Any, of: str) -> list[Any]:
        """The leaves of a value of this kind.   Raises: TracerError, ShapeError, DtypeError for another."""
        leaves = flatten_like(found, self.tree)
        if leaves is None:
            raise TracerError(
                f"{self.what}: {of} has the structure {flatten(found)[1]}, not {self.tree}", location=user_location()
            )
        return [_alike(x, a, f"{self.what}: {of}") for x, a in zip(leaves, self.avals, strict=True)]

    def function(self, flat: Callable[[list[Any]], Sequence[Any]], of: str) -> Callable[[Any], Any]:
        """A function of the user's kind of a flat one."""
        return lambda x: unflatten(self.tree, flat(self.leaves_of(x, f"what {of} is called with")))


def _floats(what: str, x: Any) -> Any:
    array_leaf(x, what, "x")
    x = x if isinstance(x, Tracer) or hasattr(x, "dtype") else np.asarray(x)[()]
    kind = aval_of_argument(x).dtype.kind
    if kind not in "fc":
        raise DtypeError(
            f"{what} solves equations of floating-point numbers, not of {aval_of_argument(x)}; use x.astype(float)",
            location=user_location(),
        )
    return x


def _alike(x: Any, aval: ShapedArray, what: str) -> Any:
    array_leaf(x, what, "")
    have = aval_of_argument(x)
    if have.shape != aval.shape:
        raise ShapeError(f"{what} has shape {have.shape}, not {aval.shape}", location=user_location())
    if have.dtype != aval.dtype:
        if not have.weak and weak_kind(x) is None:
            raise DtypeError(
                f"{what} is {short_name(have.dtype)}, not {short_name(aval.dtype)}", location=user_location()
            )
        x = convert(x, aval.dtype)
    return x


def _with_aux(what: str, of: str, found: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return found, ()
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise TracerError(
            f"{what}: with has_aux=True {of} returns a pair (x, aux), not {type(found).__name__}",
            location=user_location(),
        )
    return found[0], found[1]


class _Solver:
    """`solve(f, x)` as a flat function of x and of the constants of f; `aux` is the structure of its second result."""

    def __init__(
        self, space: _Space, solve: Callable[..., Any], of: str, flat: Callable[..., Sequence[Any]], has_aux: bool
    ) -> None:
        self.space, self.solve, self.of, self.flat, self.has_aux = space, solve, of, flat, has_aux
        self.aux: TreeDef | None = None

    def __call__(self, *args: Any) -> list[Any]:
        space, n = self.space, len(self.space)
        constants = args[n:]
        function = space.function(lambda x: self.flat(*x, *constants), "the function")
        found = prepared(self.solve)(function, unflatten(space.tree, list(args[:n])))
        x, more = _with_aux(space.what, self.of, found, self.has_aux)
        extra, self.aux = result_leaves(space.what, self.solve, more)
        return [*space.leaves_of(x, f"the result of {self.of}"), *extra]


def _answer(space: _Space, results: Sequence[Any], aux: TreeDef | None, has_aux: bool) -> Any:
    """The results as the caller gets them."""
    made = [lying(x, None) for x in results]
    x = unflatten(space.tree, made[: len(space)])
    if not has_aux:
        return x
    assert aux is not None
    return x, unflatten(aux, made[len(space) :])


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """x with f(x) = 0, as `solve(f, initial_guess)` finds it, with derivatives by the implicit function theorem.

    f: from a pytree of float arrays to one alike.  What it reads from outside is what x depends on; with respect to
    the guess and to what `solve` reads derivatives are zero.  `solve` need not be differentiable: a `while` loop, say.
    tangent_solve: `(g, y) -> x` with g(x) = y for the linear function g that f is near the root.  It is linear in y,
    and has a transpose for derivatives in reverse mode: `lambda g, y: y / g(1.0)` for numbers,
    `lambda g, y: np.linalg.solve(tj.jacfwd(g)(y), y)` for vectors.  has_aux: `solve` returns (x, aux), and so does
    this.

    Raises: TracerError, ShapeError, DtypeError where what the functions return is not alike; DtypeError for integers.
    Source: JAX's lax.custom_root.

    >>> import numpy as np, tracejit as tj
    >>> def newton(f, x):
    ...     return tj.lax.fori_loop(0, 20, lambda _, x: x - f(x) / tj.grad(f)(x), x)
    >>> def cube_root(a):
    ...     return tj.lax.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> value, slope = tj.value_and_grad(cube_root)(8.0)
    >>> round(float(value), 12), round(float(slope), 12)
    (2.0, 0.083333333333)
    """
    for function in (f, solve, tangent_solve):
        checked_function("lax.custom_root", function)
    flag("custom_root", "has_aux", has_aux)
    space = _Space("custom_root", initial_guess)
    n = len(space)

    def residual(*x: Any) -> list[Any]:
        return space.leaves_of(prepared(f)(unflatten(space.tree, list(x))), f"the result of {name_of(f)}")

    function = apart(residual, space.avals, "a function whose root is found")
    constants = list(function.constants)

    def flat(*args: Any) -> list[Any]:
        return function.run(args)

    solver = _Solver(space, solve, "solve", flat, has_aux)
    finding = apart(solver, [*space.avals, *map(aval_of_argument, constants)], "the solver of custom_root")

    def linear(*args: Any) -> list[Any]:
        x, side, others = args[:n], args[n : 2 * n], args[2 * n :]
        at = linearize(lambda *x: evaluate_jaxpr(function.pure, [*x, *others]), x)

        def pushed(v: list[Any]) -> list[Any]:
            return [
                np.zeros(a.shape, a.dtype) if t is None else t
                for t, a in zip(at.pushforward(v), space.avals, strict=True)
            ]

        g = space.function(pushed, "the linear function")
        return space.leaves_of(prepared(tangent_solve)(g, unflatten(space.tree, list(side))), "tangent_solve's result")

    solving = apart(
        linear, [*space.avals, *space.avals, *map(aval_of_argument, constants)], "the tangent_solve of custom_root"
    )
    found = finding.run([stop_gradient(x) for x in (*space.values, *constants, *finding.constants)])
    rule = RootOf(function.pure, solving.pure, len(constants), n)
    made = bind(Implicit(rule, len(found)), *found, *constants, *solving.constants)
    return _answer(space, made, solver.aux, has_aux)


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """x with matvec(x) = b, as `solve(matvec, b)` finds it, with derivatives by the linear equation itself.

    matvec: a linear function from a pytree of float arrays to one alike.  What it reads from outside is what x depends
    on, beside b; `solve` need not be differentiable.  transpose_solve: the same for the transposed function, which is
    made of matvec; derivatives in reverse mode need it.  symmetric: the function is its own transpose, and `solve`
    serves for both.  has_aux: both solvers return (x, aux), and so does this.

    Raises: TracerError, ShapeError, DtypeError where what the functions return is not like b; DtypeError for
    integers; UnsupportedError in reverse mode without transpose_solve.
    Source: JAX's lax.custom_linear_solve.

    >>> import numpy as np, tracejit as tj
    >>> a, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> def total(a):
    ...     solve = lambda _, b: np.linalg.solve(a, b)
    ...     return np.sum(tj.lax.custom_linear_solve(lambda x: a @ x, b, solve, symmetric=True))
    >>> tj.grad(total)(a).round(4)
    array([[-0.0165, -0.1157],
           [-0.0248, -0.1736]])
    """
    for function in (matvec, solve, *([] if transpose_solve is None else [transpose_solve])):
        checked_function("lax.custom_linear_solve", function)
    flag("custom_linear_solve", "symmetric", symmetric)
    flag("custom_linear_solve", "has_aux", has_aux)
    what = "custom_linear_solve"
    space = _Space(what, b)
    n = len(space)

    def multiplied(*x: Any) -> list[Any]:
        return space.leaves_of(prepared(matvec)(unflatten(space.tree, list(x))), f"the result of {name_of(matvec)}")

    product = apart(multiplied, space.avals, "the function of a linear system")
    constants = list(product.constants)
    avals = [*space.avals, *map(aval_of_argument, constants)]

    def transposed(*args: Any) -> list[Any]:
        parts = backward_pass(product.pure, args[n:], args[:n], n)
        return [np.zeros(a.shape, a.dtype) if p is None else p for p, a in zip(parts, space.avals, strict=True)]

    solver = _Solver(space, solve, "solve", lambda *args: product.run(args), has_aux)
    there = apart(solver, avals, "the solver of custom_linear_solve")
    found = there.run([stop_gradient(x) for x in (*space.values, *constants, *there.constants)])
    other = solve if transpose_solve is None and symmetric else transpose_solve
    back = flipped = None
    if other is not None:
        if not symmetric:
            flipped = apart(transposed, avals, "the transpose of a linear system").pure
        flat = solver.flat if symmetric else transposed
        back = apart(_Solver(space, other, "transpose_solve", flat, has_aux), avals, "the transpose_solve of a system")
    rule = LinearSystem.of(
        product.pure,
        (there.pure, len(there.constants)),
        flipped,
        (None, 0) if back is None else (back.pure, len(back.constants)),
        len(constants),
        n,
    )
    arguments = [*constants, *there.constants, *([] if back is None else back.constants), *space.values]
    return _answer(space, bind(Implicit(rule, len(found)), *found, *arguments), solver.aux, has_aux)
