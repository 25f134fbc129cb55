"""Rotations in three dimensions and what is between them: `scipy.spatial.transform`.

A rotation is its quaternion (x, y, z, w), a unit vector.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracejit.api.returning import returning_arrays
from tracejit.lax.operands import reject
from tracejit.numpy import reductions as r, ufuncs as u
from tracejit.numpy.decompositions import eigh
from tracejit.numpy.exponentials import inexact
from tracejit.numpy.joining import concatenate, stack
from tracejit.numpy.promotion import as_array, aval, to_dtype
from tracejit.numpy.shaping import broadcast_arrays, expand_dims, swapaxes
from tracejit.numpy.taking import searchsorted, take
from tracejit.random.continuous import normal
from tracejit.support.tree import register_node
from tracejit.support.typing import ArrayLike, DTypeLike, Result

__all__ = ["Rotation", "Slerp"]

_SMALL = 1e-6
"""Squares of angles, in radians, below which series are taken instead of quotients."""


class Rotation:
    """One rotation, or an array of them.   quat: [.., 4], a unit quaternion (x, y, z, w) each

    Made by the methods `from_..`; `p * q` is first q, then p.  The object is a pytree of its quaternions, so it goes
    into and out of compiled and mapped functions.

    Source: SciPy's spatial.transform.Rotation, with JAX's methods; a matrix is not made orthogonal first.

    >>> import numpy as np, tracejit as tj
    >>> quarter = tj.scipy.spatial.transform.Rotation.from_euler("z", 90, degrees=True)
    >>> bool(np.allclose((quarter * quarter).apply(np.array([1.0, 0.0, 0.0])), [-1.0, 0.0, 0.0]))
    True
    """

    __slots__ = ("quat",)

    def __init__(self, quat: ArrayLike) -> None:
        self.quat: Any = quat

    # -- made of other things ------------------------------------------------------------------------------------------
    @classmethod
    def from_quat(cls, quat: ArrayLike, *, scalar_first: bool = False) -> Rotation:
        """Of quaternions, which are scaled to length 1.   quat: [.., 4]"""
        return cls(_from_quat(quat, scalar_first))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Of orthogonal matrices of determinant 1.   matrix: [.., 3, 3]"""
        return cls(_from_matrix(matrix))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """About axes, by as much as these are long.   rotvec: [.., 3]"""
        return cls(_from_rotvec(rotvec, degrees))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Of modified Rodrigues parameters, axes as long as the tangent of a quarter of the angle.   mrp: [.., 3]"""
        return cls(_from_mrp(mrp))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Of angles about one to three axes in order.   seq: "xyz" of axes at rest, "XYZ" of axes that turn along;
        angles: [.., len(seq)], or a number for one axis

        Raises: ShapeError for other axes, two equal ones in a row, and another number of angles.
        """
        return cls(_from_euler(seq, angles, degrees))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """No rotation, or `num` of these."""
        one = np.array([0, 0, 0, 1], dtype)
        return cls(_given(one if num is None else np.tile(one, (num, 1))))

    @classmethod
    def random(cls, random_key: ArrayLike, num: int | None = None) -> Rotation:
        """Rotations of which all are equally likely, of a key of `tj.random`."""
        return cls(_from_quat(normal(random_key, (4,) if num is None else (num, 4)), False))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """The rotations of several arrays in one."""
        return cls(_joined([rotation.quat for rotation in rotations]))

    # -- as other things -----------------------------------------------------------------------------------------------
    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Result:
        """[.., 4]; canonical: that of the two with a positive w"""
        return _as_quat(self.quat, canonical, scalar_first)

    def as_matrix(self) -> Result:
        """[.., 3, 3]"""
        return _as_matrix(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Result:
        """[.., 3]: axes as long as the angles, which are at most half a turn"""
        return _as_rotvec(self.quat, degrees)

    def as_mrp(self) -> Result:
        """[.., 3]: modified Rodrigues parameters"""
        return _as_mrp(self.quat)

    def as_euler(self, seq: str, degrees: bool = False) -> Result:
        """[.., 3]: angles about three axes, as for `from_euler`; where they are not determined the third is 0.

        Raises: ShapeError for other axes than three of which no two in a row are equal.
        Source: Bernardes and Viollet 2022, "Quaternion to Euler angles conversion".
        """
        return _as_euler(self.quat, seq, degrees)

    # -- computed with -------------------------------------------------------------------------------------------------
    @property
    def single(self) -> bool:
        """Whether it is one rotation, and no array."""
        return aval(as_array(self.quat)).ndim == 1

    def __len__(self) -> int:
        if self.single:
            raise TypeError("a single rotation has no len()")
        return len(self.quat)

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("a single rotation has no elements")
        return Rotation(self.quat[index])

    def __mul__(self, other: Rotation) -> Rotation:
        return Rotation(_composed(self.quat, other.quat))

    def __repr__(self) -> str:
        return f"Rotation({self.quat!r})"

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Result:
        """The vectors turned, or turned back.   vectors: [.., 3]"""
        return _applied(self.quat, vectors, inverse)

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(_inverse(self.quat))

    def magnitude(self) -> Result:
        """[..]: the angles, at most half a turn"""
        return _magnitude(self.quat)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation to which the squares of the distances are least.   weights: [n]

        Raises: ShapeError for weights that are not as many as the rotations.
        Source: Markley et al. 2007, "Averaging quaternions".
        """
        return Rotation(_mean(self.quat, weights))


class Slerp:
    """Rotations at times, and between them with a constant speed; beyond the ends with that of the last step.

    times: [n], ascending; rotations: n of them, at least 2.  Called with times it gives a `Rotation`.  A pytree.

    Raises: ShapeError for shapes that do not fit.
    Source: SciPy's spatial.transform.Slerp; `Slerp.init` is JAX's.

    >>> import numpy as np, tracejit as tj
    >>> transform = tj.scipy.spatial.transform
    >>> turns = transform.Rotation.from_euler("x", np.array([[0.0], [1.0], [3.0]]))
    >>> between = transform.Slerp(np.array([0.0, 1.0, 2.0]), turns)
    >>> np.round(between(np.array([0.5, 1.5])).as_rotvec()[:, 0], 12)
    Array([0.5, 2. ], dtype=float64)
    """

    __slots__ = ("rotations", "rotvecs", "timedelta", "times")

    def __init__(self, times: ArrayLike, rotations: Rotation) -> None:
        if rotations.single or len(rotations) == 1:
            raise reject("Slerp: `rotations` must be a sequence of at least 2 rotations")
        t = to_dtype(as_array(times), aval(as_array(rotations.quat)).dtype)
        if aval(t).ndim != 1 or aval(t).shape[0] != len(rotations):
            raise reject(f"Slerp: times {aval(t)} for {len(rotations)} rotations")
        self.times: Any = _given(t)
        self.timedelta: Any = _steps(t)
        self.rotations = rotations[:-1]
        self.rotvecs: Any = (self.rotations.inv() * rotations[1:]).as_rotvec()

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The same as `Slerp(times, rotations)`."""
        return cls(times, rotations)

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at times.   times: [] or [m]

        Raises: ShapeError for times of more axes.
        """
        return Rotation(_between(self.times, self.timedelta, self.rotations.quat, self.rotvecs, times))


def _rotation(_: Any, children: Sequence[Any]) -> Rotation:
    return Rotation(*children)


def _slerp(_: Any, children: Sequence[Any]) -> Slerp:
    made = object.__new__(Slerp)
    made.times, made.timedelta, made.rotations, made.rotvecs = children
    return made


register_node(Rotation, lambda x: ((x.quat,), None), _rotation)
register_node(Slerp, lambda x: ((x.times, x.timedelta, x.rotations, x.rotvecs), None), _slerp)


# -- quaternions and other forms ---------------------------------------------------------------------------------------
def _numbers(name: str, x: ArrayLike, *last: int) -> Result:
    (y,) = inexact(x)
    if aval(y).shape[-len(last) :] != last:
        raise reject(f"Rotation.{name}: {aval(y)} does not end in axes of {' and '.join(map(str, last))} elements")
    return y


def _parts(x: ArrayLike) -> list[Result]:
    """What lies along the last axis."""
    return [take(x, k, axis=-1) for k in range(int(aval(as_array(x)).shape[-1]))]


def _row(*parts: ArrayLike) -> Result:
    return stack(broadcast_arrays(*parts), axis=-1)


def _square(x: ArrayLike) -> Result:
    """The squares of the lengths of vectors."""
    return r.sum(u.multiply(x, x), axis=-1)


def _scaled(x: ArrayLike, by: ArrayLike) -> Result:
    """Vectors times a number each."""
    return u.multiply(x, expand_dims(by, -1))


def _unit(quat: ArrayLike) -> Result:
    return _scaled(quat, u.divide(1, u.sqrt(_square(quat))))


@returning_arrays
def _given(x: ArrayLike) -> Result:
    return u.positive(x)


@returning_arrays
def _joined(quats: Sequence[ArrayLike]) -> Result:
    return concatenate(quats, axis=0)


@returning_arrays
def _from_quat(quat: ArrayLike, scalar_first: bool) -> Result:
    q = _numbers("from_quat", quat, 4)
    return _unit(take(q, [1, 2, 3, 0], axis=-1) if scalar_first else q)


@returning_arrays
def _from_matrix(matrix: ArrayLike) -> Result:
    """By the greatest of the four quantities that may be divided by."""
    m = _numbers("from_matrix", matrix, 3, 3)
    e = [_parts(row) for row in (take(m, k, axis=-2) for k in range(3))]
    trace = u.add(u.add(e[0][0], e[1][1]), e[2][2])
    found = _row(
        u.subtract(e[2][1], e[1][2]),
        u.subtract(e[0][2], e[2][0]),
        u.subtract(e[1][0], e[0][1]),
        u.add(trace, 1),
    )
    best = trace
    for i in (2, 1, 0):
        j, k = (i + 1) % 3, (i + 2) % 3
        quat: list[Any] = [None] * 4
        quat[i] = u.add(u.subtract(u.multiply(e[i][i], 2), trace), 1)
        quat[j], quat[k] = u.add(e[j][i], e[i][j]), u.add(e[k][i], e[i][k])
        quat[3] = u.subtract(e[k][j], e[j][k])
        better = u.greater_equal(e[i][i], best)
        best = u.where(better, e[i][i], best)
        found = u.where(expand_dims(better, -1), _row(*quat), found)
    return _unit(found)


def _turn(rotvec: ArrayLike, degrees: bool) -> Result:
    v = _numbers("from_rotvec", rotvec, 3)
    v = u.deg2rad(v) if degrees else v
    square = _square(v)
    small = u.less(square, _SMALL)
    angle = u.sqrt(u.where(small, 1, square))
    half = u.multiply(angle, 0.5)
    scale = u.where(small, _series(square, 0.5, -1 / 48, 1 / 3840), u.divide(u.sin(half), angle))
    w = u.where(small, _series(square, 1.0, -1 / 8, 1 / 384), u.cos(half))
    return concatenate([_scaled(v, scale), expand_dims(w, -1)], axis=-1)


_from_rotvec = returning_arrays(_turn)


def _series(x: ArrayLike, first: float, second: float, third: float) -> Result:
    return u.add(u.multiply(u.add(u.multiply(x, third), second), x), first)


@returning_arrays
def _from_mrp(mrp: ArrayLike) -> Result:
    v = _numbers("from_mrp", mrp, 3)
    whole = u.add(_square(v), 1)
    over = u.divide(1, whole)
    last = u.multiply(u.subtract(2, whole), over)
    return concatenate([_scaled(v, u.multiply(over, 2)), expand_dims(last, -1)], axis=-1)


def _axes(name: str, seq: str, least: int) -> tuple[list[int], bool]:
    """The axes by number, and whether they turn along."""
    if re.fullmatch(r"[xyz]{1,3}|[XYZ]{1,3}", seq) is None or len(seq) < least:
        raise reject(f'Rotation.{name}: {seq!r} are no {least or 1} to 3 axes of "xyz" or of "XYZ"')
    axes = ["xyz".index(c) for c in seq.lower()]
    if any(a == b for a, b in itertools.pairwise(axes)):
        raise reject(f"Rotation.{name}: consecutive axes are to be different, not {seq!r}")
    return axes, seq.isupper()


@returning_arrays
def _from_euler(seq: str, angles: ArrayLike, degrees: bool) -> Result:
    axes, along = _axes("from_euler", seq, 1)
    (given,) = inexact(angles)
    if len(axes) == 1 and aval(given).ndim == 0:
        given = expand_dims(given, -1)
    given = _numbers("from_euler", given, len(axes))
    found: Any = None
    for axis, angle in zip(axes, _parts(u.deg2rad(given) if degrees else given), strict=True):
        half = u.multiply(angle, 0.5)
        none = u.multiply(half, 0)
        quat = _row(*[u.sin(half) if k == axis else none for k in range(3)], u.cos(half))
        found = quat if found is None else _product(found, quat) if along else _product(quat, found)
    return found


@returning_arrays
def _as_quat(quat: ArrayLike, canonical: bool, scalar_first: bool) -> Result:
    q = as_array(quat)
    if canonical:
        turned = False
        for part in _parts(q)[:3][::-1] + _parts(q)[3:]:  # the first of w, x, y, z that is not 0 decides
            turned = u.logical_or(u.less(part, 0), u.logical_and(u.equal(part, 0), turned))
        q = u.where(expand_dims(turned, -1), u.negative(q), q)
    return take(q, [3, 0, 1, 2], axis=-1) if scalar_first else u.positive(q)


def _matrix(quat: ArrayLike) -> Result:
    x, y, z, w = _parts(quat)
    x2, y2, z2, w2 = (u.multiply(a, a) for a in (x, y, z, w))

    def twice(a: Any, b: Any, c: Any, d: Any, plus: bool) -> Result:
        return u.multiply((u.add if plus else u.subtract)(u.multiply(a, b), u.multiply(c, d)), 2)

    def on(a: Any, b: Any, c: Any) -> Result:
        return u.subtract(u.add(w2, a), u.add(b, c))

    return stack(
        [
            _row(on(x2, y2, z2), twice(x, y, z, w, False), twice(x, z, y, w, True)),
            _row(twice(x, y, z, w, True), on(y2, x2, z2), twice(y, z, x, w, False)),
            _row(twice(x, z, y, w, False), twice(y, z, x, w, True), on(z2, x2, y2)),
        ],
        axis=-2,
    )


_as_matrix = returning_arrays(_matrix)


def _upper(quat: ArrayLike) -> tuple[Result, Result]:
    """(vector, w) of that of the two quaternions with w from 0 on."""
    w = take(quat, 3, axis=-1)
    sign = u.where(u.less(w, 0), -1, 1)
    return _scaled(take(quat, [0, 1, 2], axis=-1), sign), u.multiply(w, sign)


@returning_arrays
def _as_rotvec(quat: ArrayLike, degrees: bool) -> Result:
    v, w = _upper(as_array(quat))
    square = _square(v)
    small = u.less(square, _SMALL)
    length = u.sqrt(u.where(small, 1, square))
    scale = u.divide(u.multiply(u.arctan2(length, w), 2), length)
    found = _scaled(v, u.where(small, _series(square, 2.0, 1 / 3, 3 / 20), scale))
    return u.rad2deg(found) if degrees else found


@returning_arrays
def _as_mrp(quat: ArrayLike) -> Result:
    v, w = _upper(as_array(quat))
    return _scaled(v, u.divide(1, u.add(w, 1)))


@returning_arrays
def _as_euler(quat: ArrayLike, seq: str, degrees: bool) -> Result:
    axes, along = _axes("as_euler", seq, 3)
    first, third = (2, 0) if along else (0, 2)
    i, j, k = axes[::-1] if along else axes
    symmetric = i == k
    k = 3 - i - j if symmetric else k
    sign = (i - j) * (j - k) * (k - i) // 2
    q = _parts(as_array(quat))
    last = u.multiply(q[k], sign)
    if symmetric:
        a, b, c, d = q[3], q[i], q[j], last
    else:
        a, b, c, d = u.subtract(q[3], q[j]), u.add(q[i], last), u.add(q[j], q[3]), u.subtract(last, q[i])
    middle = u.multiply(u.arctan2(u.hypot(c, d), u.hypot(a, b)), 2)
    low, high = u.less_equal(u.absolute(middle), 1e-7), u.less_equal(u.absolute(u.subtract(middle, math.pi)), 1e-7)
    total, gap = u.arctan2(b, a), u.arctan2(d, c)
    locked = u.where(low, u.multiply(total, 2), u.multiply(gap, 2 if along else -2))
    some = u.logical_or(low, high)
    angles: list[Any] = [None, middle, None]
    angles[first], angles[third] = u.subtract(total, gap), u.add(total, gap)
    angles[0], angles[2] = u.where(some, locked, angles[0]), u.where(some, 0, angles[2])
    if not symmetric:
        angles[third] = u.multiply(angles[third], sign)
        angles[1] = u.subtract(middle, math.pi / 2)
    found = _row(*angles)
    found = u.where(u.less(found, -math.pi), u.add(found, 2 * math.pi), found)
    found = u.where(u.greater(found, math.pi), u.subtract(found, 2 * math.pi), found)
    return u.rad2deg(found) if degrees else found


# -- what is computed with them ----------------------------------------------------------------------------------------
def _product(p: ArrayLike, q: ArrayLike) -> Result:
    px, py, pz, pw = _parts(p)
    qx, qy, qz, qw = _parts(q)

    def total(*terms: tuple[Any, Any, int]) -> Result:
        found: Any = None
        for a, b, sign in terms:
            term = u.multiply(a, b)
            found = term if found is None else (u.add if sign > 0 else u.subtract)(found, term)
        return found

    return _row(
        total((pw, qx, 1), (px, qw, 1), (py, qz, 1), (pz, qy, -1)),
        total((pw, qy, 1), (py, qw, 1), (pz, qx, 1), (px, qz, -1)),
        total((pw, qz, 1), (pz, qw, 1), (px, qy, 1), (py, qx, -1)),
        total((pw, qw, 1), (px, qx, -1), (py, qy, -1), (pz, qz, -1)),
    )


@returning_arrays
def _composed(p: ArrayLike, q: ArrayLike) -> Result:
    return _unit(_product(*inexact(p, q)))


@returning_arrays
def _applied(quat: ArrayLike, vectors: ArrayLike, inverse: bool) -> Result:
    v = _numbers("apply", vectors, 3)
    matrix = _matrix(quat)
    matrix = swapaxes(matrix, -1, -2) if inverse else matrix
    return r.sum(u.multiply(matrix, expand_dims(v, -2)), axis=-1)


@returning_arrays
def _inverse(quat: ArrayLike) -> Result:
    q = as_array(quat)
    return u.multiply(q, np.array([-1, -1, -1, 1], aval(q).dtype))


@returning_arrays
def _magnitude(quat: ArrayLike) -> Result:
    v, w = _upper(as_array(quat))
    return u.multiply(u.arctan2(u.sqrt(_square(v)), w), 2)


@returning_arrays
def _mean(quat: ArrayLike, weights: ArrayLike | None) -> Result:
    q = as_array(quat)
    if aval(q).ndim != 2:
        raise reject(f"Rotation.mean: the mean of a vector of rotations, not of quaternions {aval(q)}")
    w = np.ones(1, aval(q).dtype) if weights is None else to_dtype(as_array(weights), aval(q).dtype)
    if weights is not None and (aval(w).ndim != 1 or aval(w).shape[0] != aval(q).shape[0]):
        raise reject(f"Rotation.mean: weights {aval(w)} for {aval(q).shape[0]} rotations")
    heavy = u.multiply(expand_dims(w, -1), q)
    matrix = r.sum(u.multiply(expand_dims(heavy, 2), expand_dims(q, 1)), axis=0)
    return take(eigh(matrix)[1], 3, axis=-1)


@returning_arrays
def _steps(times: ArrayLike) -> Result:
    n = int(aval(times).shape[0])
    return u.subtract(take(times, np.arange(1, n), axis=0), take(times, np.arange(n - 1), axis=0))


@returning_arrays
def _between(times: ArrayLike, steps: ArrayLike, quat: ArrayLike, rotvecs: ArrayLike, at: ArrayLike) -> Result:
    t = to_dtype(as_array(at), aval(as_array(times)).dtype)
    if aval(t).ndim > 1:
        raise reject(f"Slerp: times {aval(t)} of more than one axis")
    last = int(aval(as_array(steps)).shape[0]) - 1
    place = u.minimum(u.maximum(u.subtract(searchsorted(times, t), 1), 0), last)
    share = u.divide(u.subtract(t, take(times, place, axis=0)), take(steps, place, axis=0))
    turn = _turn(_scaled(take(rotvecs, place, axis=0), share), False)
    return _unit(_product(take(quat, place, axis=0), turn))
