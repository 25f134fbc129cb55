"""First values of parameters: what each function here gives is a function `init(key, shape, dtype)`, as JAX has them.

`zeros` and `ones` are such functions themselves.  Shapes are known while tracing; float64 is the dtype where none is
given.  Numbers are those of `tj.random`, so JAX's for the same key up to the last digits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracejit import random
from tracejit.api.returning import returning_arrays
from tracejit.numpy import shaping
from tracejit.numpy.creation import full
from tracejit.random.operands import as_shape, float_dtype
from tracejit.support.errors import OptionError, ShapeError
from tracejit.support.source import user_location
from tracejit.support.typing import ArrayLike, DTypeLike, Result, ShapeLike

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal",
    "truncated_normal", "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

Initializer = Callable[..., Result]
"""A function `init(key, shape, dtype)`, whose dtype has a default."""

Axes = int | Sequence[int]

_DEVIATION = 0.87962566103423978
"""Of the normal distribution of variance 1, cut off at -2 and 2."""


def _initializer(
    draw: Callable[[ArrayLike, tuple[int, ...], np.dtype[Any]], Result], default: DTypeLike
) -> Initializer:
    """A function of a key, a shape and a dtype, for users."""

    @returning_arrays
    def init(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = default) -> Result:
        extents = tuple([operator.index(n) for n in as_shape(shape)])
        return draw(key, extents, float_dtype("initializer", dtype))

    return init


@returning_arrays
def zeros(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = None) -> Result:
    """Zeros; the key is not used.   -> dtype[*shape]   Source: JAX's nn.initializers.zeros.

    >>> import tracejit as tj
    >>> tj.nn.initializers.zeros(tj.random.key(0), (2,))
    Array([0., 0.], dtype=float64)
    """
    return full(as_shape(shape), 0, np.float64 if dtype is None else dtype)


@returning_arrays
def ones(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = None) -> Result:
    """Ones; the key is not used.   -> dtype[*shape]   Source: JAX's nn.initializers.ones.

    >>> import tracejit as tj
    >>> tj.nn.initializers.ones(tj.random.key(0), (2,))
    Array([1., 1.], dtype=float64)
    """
    return full(as_shape(shape), 1, np.float64 if dtype is None else dtype)


def constant(value: ArrayLike, dtype: DTypeLike = None) -> Initializer:
    """Arrays of one value, or of an array that is broadcast; the key is not used.

    Source: JAX's nn.initializers.constant.

    >>> import tracejit as tj
    >>> tj.nn.initializers.constant(-7)(tj.random.key(0), (2,))
    Array([-7., -7.], dtype=float64)
    """

    @returning_arrays
    def init(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = dtype) -> Result:
        return full(as_shape(shape), value, np.float64 if dtype is None else dtype)

    return init


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Numbers equally distributed in [0, scale).   Source: JAX's nn.initializers.uniform.

    >>> import tracejit as tj
    >>> tj.nn.initializers.uniform(10.0)(tj.random.key(42), (3,)).round(4)
    Array([4.2673, 0.1501, 5.7414], dtype=float64)
    """
    return _initializer(lambda key, shape, kind: random.uniform(key, shape, kind) * _number(scale, kind), dtype)


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Normal numbers of mean 0.   Source: JAX's nn.initializers.normal.

    >>> import tracejit as tj
    >>> tj.nn.initializers.normal(1.0)(tj.random.key(42), (3,)).round(4)
    Array([-0.1847, -2.1698,  0.1869], dtype=float64)
    """
    return _initializer(lambda key, shape, kind: random.normal(key, shape, kind) * _number(stddev, kind), dtype)


def truncated_normal(
    stddev: ArrayLike = 1e-2, dtype: DTypeLike = None, lower: ArrayLike = -2.0, upper: ArrayLike = 2.0
) -> Initializer:
    """Numbers of the normal distribution of variance 1 between two bounds, times stddev.

    Source: JAX's nn.initializers.truncated_normal.

    >>> import tracejit as tj
    >>> tj.nn.initializers.truncated_normal(5.0)(tj.random.key(42), (3,)).round(4)
    Array([-0.8811, -8.9283,  0.8917], dtype=float64)
    """

    def draw(key: ArrayLike, shape: tuple[int, ...], kind: np.dtype[Any]) -> Result:
        return random.truncated_normal(key, lower, upper, shape, kind) * _number(stddev, kind)

    return _initializer(draw, dtype)


def _number(x: Any, kind: np.dtype[Any]) -> Any:
    """A parameter in the dtype of the result."""
    return kind.type(x) if np.isscalar(x) else np.asarray(x, kind) if isinstance(x, (list, tuple)) else x.astype(kind)


# -- by how many numbers are summed ------------------------------------------------------------------------------------
def _fans(shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many inputs a result has, and how many results an input: axes beside these are windows of convolutions."""
    if len(shape) < 2 and isinstance(in_axis, int) and in_axis == -2:
        raise ShapeError(
            f"nn.initializers: a shape of two axes and more tells inputs from outputs, and {shape} has {len(shape)}; "
            "give in_axis=",
            location=user_location(),
        )

    def extent(axes: Axes) -> int:
        try:
            return math.prod([shape[d] for d in ([axes] if isinstance(axes, int) else axes)])
        except IndexError:
            raise ShapeError(
                f"nn.initializers: the shape {shape} has no axis {axes}", location=user_location()
            ) from None

    inputs, outputs = extent(in_axis), extent(out_axis)
    batch = extent(batch_axis) if isinstance(batch_axis, int) or batch_axis else 1
    if not inputs * outputs * batch:
        raise ShapeError(f"nn.initializers: an axis of {shape} is empty", location=user_location())
    window = math.prod(shape) / inputs / outputs / batch
    return inputs * window, outputs * window


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike = None,
) -> Initializer:
    """Numbers of mean 0 and variance scale / n.

    mode: what n is: "fan_in", the number of inputs, "fan_out", of outputs, "fan_avg" or "fan_geo_avg", the arithmetic
    or geometric mean of both.  distribution: "truncated_normal" (at two deviations), "normal" or "uniform".
    in_axis, out_axis, batch_axis: axes of the shape; all others are windows of convolutions.
    Raises: OptionError for another mode or distribution; ShapeError for a shape without these axes.
    Source: JAX's nn.initializers.variance_scaling.

    >>> import tracejit as tj
    >>> init = tj.nn.initializers.variance_scaling(2.0, "fan_avg", "uniform")
    >>> init(tj.random.key(42), (1, 3)).round(4)
    Array([[-0.2538, -1.6801,  0.2568]], dtype=float64)
    """
    modes: dict[str, Callable[[float, float], float]] = {
        "fan_in": lambda n, _: n,
        "fan_out": lambda _, m: m,
        "fan_avg": lambda n, m: (n + m) / 2,
        "fan_geo_avg": lambda n, m: (n * m) ** 0.5,
    }
    _one_of("mode", mode, tuple(modes))
    _one_of("distribution", distribution, ("truncated_normal", "normal", "uniform"))

    def draw(key: ArrayLike, shape: tuple[int, ...], kind: np.dtype[Any]) -> Result:
        n = modes[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        variance = kind.type(scale / n)
        if distribution == "normal":
            return random.normal(key, shape, kind) * np.sqrt(variance)
        if distribution == "uniform":
            return random.uniform(key, shape, kind, -1) * np.sqrt(kind.type(3) * variance)
        return random.truncated_normal(key, -2, 2, shape, kind) * (np.sqrt(variance) / kind.type(_DEVIATION))

    return _initializer(draw, dtype)


def _one_of(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise OptionError(
            f"variance_scaling: {name} is one of {', '.join(map(repr, known))}, not {given!r}", location=user_location()
        )


def _scaled(scale: float, mode: str, distribution: str, name: str, example: str) -> Callable[..., Initializer]:
    """`variance_scaling` with a scale, a mode and a distribution of its own."""

    def made(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"""`variance_scaling` of scale {scale}, mode "{mode}" and distribution "{distribution}".

    Raises: ShapeError for a shape without the axes.   Source: JAX's nn.initializers.{name}.

    >>> import tracejit as tj
    >>> tj.nn.initializers.{name}()(tj.random.key(42), (1, 3)).round(4)
    Array([[{example}]], dtype=float64)
    """
    return made


glorot_uniform = xavier_uniform = _scaled(1.0, "fan_avg", "uniform", "glorot_uniform", "-0.1795, -1.188 ,  0.1816")
glorot_normal = xavier_normal = _scaled(
    1.0, "fan_avg", "truncated_normal", "glorot_normal", "-0.1417, -1.4354,  0.1434"
)
lecun_uniform = _scaled(1.0, "fan_in", "uniform", "lecun_uniform", "-0.2538, -1.6801,  0.2568")
lecun_normal = _scaled(1.0, "fan_in", "truncated_normal", "lecun_normal", "-0.2003, -2.03  ,  0.2027")
he_uniform = kaiming_uniform = _scaled(2.0, "fan_in", "uniform", "he_uniform", "-0.359 , -2.376 ,  0.3632")
he_normal = kaiming_normal = _scaled(2.0, "fan_in", "truncated_normal", "he_normal", "-0.2833, -2.8709,  0.2867")


# -- orthogonal --------------------------------------------------------------------------------------------------------
def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """Orthogonal matrices, all equally likely, times a scale; where they are not square, orthonormal rows or columns.

    column_axis: the axis of the columns; all others together are that of the rows.
    Raises: ShapeError for a shape of fewer than two axes.
    Source: JAX's nn.initializers.orthogonal; Saxe, McClelland, Ganguli, Exact solutions to the nonlinear dynamics of
    learning in deep linear neural networks, 2014.

    >>> import numpy as np, tracejit as tj
    >>> q = tj.nn.initializers.orthogonal()(tj.random.key(42), (2, 3))
    >>> bool(np.allclose(q @ q.T, np.eye(2)))
    True
    """
    return _initializer(partial(_orthogonal, scale, column_axis), dtype)


def _orthogonal(
    scale: ArrayLike, column_axis: int, key: ArrayLike, shape: tuple[int, ...], kind: np.dtype[Any]
) -> Result:
    if len(shape) < 2 or not -len(shape) <= column_axis < len(shape):
        raise ShapeError(
            f"nn.initializers.orthogonal wants a shape of two axes and more with an axis {column_axis}, not {shape}",
            location=user_location(),
        )
    if 0 in shape:
        return full(shape, 0, kind)
    at = column_axis % len(shape)
    others, columns = shape[:at] + shape[at + 1 :], shape[at]
    q = random.orthogonal(key, math.prod(others), (), kind, columns)
    return shaping.moveaxis(shaping.reshape(q, (*others, columns)), -1, at) * _number(scale, kind)


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """Filters of convolutions that are an orthogonal matrix in the middle of the window, and 0 elsewhere.

    Shapes: (*window, inputs, outputs) of one to three axes of windows, with no more inputs than outputs.
    Raises: ShapeError for another shape.
    Source: JAX's nn.initializers.delta_orthogonal; Xiao et al., Dynamical isometry and a mean field theory of CNNs,
    2018.

    >>> import numpy as np, tracejit as tj
    >>> w = tj.nn.initializers.delta_orthogonal()(tj.random.key(42), (3, 2, 2))
    >>> bool(np.allclose(w[1] @ w[1].T, np.eye(2))), float(abs(w[::2]).max())
    (True, 0.0)
    """

    def draw(key: ArrayLike, shape: tuple[int, ...], kind: np.dtype[Any]) -> Result:
        if len(shape) not in (3, 4, 5):
            raise ShapeError(
                f"nn.initializers.delta_orthogonal wants a shape of 3, 4 or 5 axes, not {shape}",
                location=user_location(),
            )
        if shape[-1] < shape[-2]:
            raise ShapeError(
                f"nn.initializers.delta_orthogonal: there are more inputs than outputs in {shape}; exchange the last "
                "two axes and transpose the result",
                location=user_location(),
            )
        q = _orthogonal(scale, column_axis, key, shape[-2:], kind)
        around = [((n - 1) // 2, n - 1 - (n - 1) // 2) for n in shape[:-2]]
        return np.pad(shaping.reshape(q, (*[1] * len(around), *shape[-2:])), [*around, (0, 0), (0, 0)])

    return _initializer(draw, dtype)
