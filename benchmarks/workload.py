"""What is measured: a function in plain NumPy, its inputs at several sizes,
and how each framework's user would write it.
"""

import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

FRAMEWORKS = ("numpy", "numba", "jax", "tracejit")
Tree = Any  # arrays in tuples, lists and dicts


@frozen
class Case:
    """One row of the table: a workload at one size and dtype. `size` is whatever the workload's `arguments` takes."""

    workload: str
    label: str
    dtype: str
    size: Any

    @property
    def name(self) -> str:
        return f"{self.workload} {self.label} {self.dtype}"


@frozen
class Workload:
    """A function with its inputs and its spellings.

    arguments: (generator, size, dtype) -> the positional arguments.
    numpy: the function in plain NumPy. With inputs widened to float64 it is the reference too, unless `reference` is
    given. spell: framework -> a function that imports it and returns the callable; runs in that framework's process
    only.
        `jax` and `tracejit` need none where the NumPy function serves: it is jitted, for JAX with `np` read as
        `jax.numpy`.
    tolerance: dtype -> largest error over the largest reference value. For integer results: the fraction allowed to
    differ. measure: the error over what is allowed, of one array, where frameworks give other numbers: random ones.
    peers_take_numpy: JAX gets NumPy arrays instead of its own (to time the crossing).
    """

    name: str
    sizes: Mapping[str, Any]
    arguments: Callable[[np.random.Generator, Any, np.dtype[Any]], tuple[Tree, ...]]
    numpy: Callable[..., Tree]
    spell: Mapping[str, Callable[[], Callable[..., Tree]]] = field(factory=dict)
    dtypes: tuple[str, ...] = ("f4", "f8")
    tolerance: Mapping[str, float] = field(factory=lambda: {"f4": 2e-5, "f8": 1e-12})
    reference: Callable[..., Tree] | None = None
    peers_take_numpy: bool = False
    measure: Callable[[Case, np.ndarray], float] | None = None

    @property
    def cases(self) -> list[Case]:
        return [Case(self.name, label, dtype, size) for label, size in self.sizes.items() for dtype in self.dtypes]

    def build(self, framework: str) -> Callable[..., Tree]:
        """The callable that `framework` is timed with. Raises LookupError if the workload has no spelling for it."""
        if framework in self.spell:
            return self.spell[framework]()
        match framework:
            case "numpy":
                return self.numpy
            case "jax":
                import jax
                import jax.numpy as jnp

                return jax.jit(reading(self.numpy, np=jnp))
            case "tracejit":
                import tracejit as tj

                return tj.jit(self.numpy)
            case _:
                raise LookupError(f"{self.name} has no version for {framework}")

    def inputs(self, case: Case) -> tuple[Tree, ...]:
        """The arguments of `case`: the same in every process."""
        return self.arguments(np.random.default_rng(20240), case.size, np.dtype(case.dtype))

    def expected(self, case: Case) -> list[np.ndarray]:
        """The reference results in float64."""
        wide = tuple(widened(argument) for argument in self.inputs(case))
        return leaves((self.reference or self.numpy)(*wide))

    def error(self, case: Case, got: Tree, want: list[np.ndarray]) -> float:
        """Error of the worst result over its tolerance: above 1 the timing does not count. NaN
        where NaN is not expected is infinite.
        """
        arrays = leaves(got)
        if [np.shape(a) for a in arrays] != [w.shape for w in want]:
            return float("inf")
        if self.measure is not None:
            return max(self.measure(case, a) for a in arrays)
        worst = max(distance(a, w) for a, w in zip(arrays, want, strict=True))
        allowed = self.tolerance[case.dtype]
        return worst / allowed if allowed else float("inf") if worst else 0.0


def reading(function: Callable[..., Tree], **names: object) -> Callable[..., Tree]:
    """`function` with some of its global names standing for others, as if written with another import line."""
    scope = {**function.__globals__, **names}
    inner = {
        name: reading(value, **names)
        for name, value in scope.items()
        if is_sibling(value, function) and value is not function
    }
    scope.update(inner)
    return types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


def is_sibling(value: object, function: Callable[..., Tree]) -> bool:
    """Whether `value` is a plain function that `function` calls by name from the same module."""
    if not isinstance(value, types.FunctionType) or value.__globals__ is not function.__globals__:
        return False
    return value.__name__ in function.__code__.co_names


def mapped(function: Callable[[Any], Any], tree: Tree) -> Tree:
    match tree:
        case dict():
            return {key: mapped(function, value) for key, value in tree.items()}
        case tuple() | list():
            return type(tree)(mapped(function, value) for value in tree)
        case _:
            return function(tree)


def widened(tree: Tree) -> Tree:
    return mapped(lambda x: x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x, tree)


def leaves(tree: Tree) -> list[np.ndarray]:
    match tree:
        case dict():
            return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
        case tuple() | list():
            return [leaf for value in tree for leaf in leaves(value)]
        case _:
            return [np.asarray(tree)]


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """Largest difference over the largest reference value; for integers the fraction that differs."""
    if want.dtype.kind in "iub":
        return float(np.mean(got != want))
    difference = np.abs(got.astype(np.float64) - want)
    if np.isnan(difference).any():
        return float("inf")
    return float(difference.max() / max(np.abs(want).max(), 1e-30))
