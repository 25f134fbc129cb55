"""Rotations and what is between them, against SciPy's."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

theirs = pytest.importorskip("scipy.spatial.transform")
ours = tj.scipy.spatial.transform
RNG = np.random.default_rng(5)
QUATS, VECTORS = RNG.normal(size=(12, 4)), RNG.normal(size=(12, 3))
SEQUENCES = ("xyz", "XYZ", "zxz", "ZYX", "yxy", "ZXZ", "yzx", "XZY")


def near(got: Any, want: Any) -> None:
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-13)


FORMS = ("as_quat", "as_matrix", "as_rotvec", "as_mrp", "magnitude")


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_rotations(form: str):
    for quats in (QUATS, QUATS[0], -QUATS):
        want = getattr(theirs.Rotation.from_quat(quats), form)()
        got = getattr(ours.Rotation.from_quat(quats), form)()
        assert isinstance(got, tj.Array)
        near(got, want)
        near(tj.jit(lambda q: getattr(ours.Rotation.from_quat(q), form)())(quats), want)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_angles_about_axes(seq: str):
    got, want = ours.Rotation.from_euler(seq, VECTORS), theirs.Rotation.from_euler(seq, VECTORS)
    near(got.as_matrix(), want.as_matrix())
    near(got.as_euler(seq), want.as_euler(seq))
    near(got.as_euler(seq, degrees=True) / 100, want.as_euler(seq, degrees=True) / 100)
    near(tj.jit(lambda a: ours.Rotation.from_euler(seq, a, degrees=True).as_quat())(VECTORS[0]),
         theirs.Rotation.from_euler(seq, VECTORS[0], degrees=True).as_quat())  # fmt: skip


def test_angles_that_are_not_determined():
    for seq in SEQUENCES:
        middle = (0.0, np.pi) if seq[0] == seq[2] else (np.pi / 2, -np.pi / 2)
        for angle in middle:
            r = ours.Rotation.from_euler(seq, np.array([0.3, angle, 0.4]))
            angles = r.as_euler(seq)
            assert angles[2] == 0
            np.testing.assert_allclose(ours.Rotation.from_euler(seq, angles).as_matrix(), r.as_matrix(), atol=1e-7)


def test_less_than_three_axes():
    near(ours.Rotation.from_euler("z", 0.5).as_quat(), theirs.Rotation.from_euler("z", 0.5).as_quat())
    near(ours.Rotation.from_euler("Z", VECTORS[:, :1]).as_quat(),
         theirs.Rotation.from_euler("Z", VECTORS[:, :1]).as_quat())  # fmt: skip
    near(ours.Rotation.from_euler("yx", VECTORS[:, :2]).as_quat(),
         theirs.Rotation.from_euler("yx", VECTORS[:, :2]).as_quat())  # fmt: skip


def test_they_are_made_of_other_forms():
    matrices = theirs.Rotation.from_quat(QUATS).as_matrix()
    axes = theirs.Rotation.from_rotvec(np.concatenate([np.eye(3), -np.eye(3)]) * np.pi).as_matrix()
    for m in (matrices, axes, matrices[3], np.eye(3)):
        near(ours.Rotation.from_matrix(m).as_matrix(), m)
    for v in (VECTORS, VECTORS * 1e-4, VECTORS[0], np.zeros(3)):
        near(ours.Rotation.from_rotvec(v).as_quat(), theirs.Rotation.from_rotvec(v).as_quat())
        near(ours.Rotation.from_mrp(v).as_quat(), theirs.Rotation.from_mrp(v).as_quat())
        near(ours.Rotation.from_rotvec(v).as_rotvec(), theirs.Rotation.from_rotvec(v).as_rotvec())
    near(ours.Rotation.from_rotvec(40 * VECTORS, degrees=True).as_rotvec(degrees=True),
         theirs.Rotation.from_rotvec(40 * VECTORS, degrees=True).as_rotvec(degrees=True))  # fmt: skip
    near(ours.Rotation.from_quat(QUATS, scalar_first=True).as_quat(canonical=True),
         theirs.Rotation.from_quat(QUATS, scalar_first=True).as_quat(canonical=True))  # fmt: skip
    some = np.array([[1.0, 0, 0, 0], [-1, 0, 0, 0], [0, -1, 1, 0], [0, 0, -1, 0]])
    near(ours.Rotation.from_quat(some).as_quat(True, True),
         theirs.Rotation.from_quat(some).as_quat(canonical=True, scalar_first=True))  # fmt: skip
    assert ours.Rotation.from_quat(QUATS.astype("f4")).as_matrix().dtype == np.float32


def test_products_inverses_and_means():
    got, want = ours.Rotation.from_quat(QUATS), theirs.Rotation.from_quat(QUATS)
    near((got * got[::-1]).as_matrix(), (want * want[::-1]).as_matrix())
    near((got[0] * got).as_matrix(), (want[0] * want).as_matrix())
    near(got.inv().as_matrix(), want.inv().as_matrix())
    near(got.apply(VECTORS), want.apply(VECTORS))
    near(got[2].apply(VECTORS, inverse=True), want[2].apply(VECTORS, inverse=True))
    near(got.apply(VECTORS[0]), want.apply(VECTORS[0]))
    near(got.mean().as_matrix(), want.mean().as_matrix())
    near(got.mean(np.arange(12.0)).as_matrix(), want.mean(np.arange(12.0)).as_matrix())
    near(ours.Rotation.concatenate([got[:2], got[5:]]).as_quat(), got.as_quat()[[0, 1, *range(5, 12)]])
    near(ours.Rotation.identity().as_matrix(), np.eye(3))
    assert len(got) == 12
    assert len(ours.Rotation.identity(4)) == 4
    assert not got.single
    assert got[0].single
    with pytest.raises(TypeError, match="no len"):
        len(got[0])
    with pytest.raises(TypeError, match="no elements"):
        got[0][0]


def test_random_rotations_turn_everywhere():
    turned = np.asarray(ours.Rotation.random(tj.random.key(0), 20_000).as_matrix())
    np.testing.assert_allclose(turned.mean(0), np.zeros((3, 3)), atol=0.02)
    np.testing.assert_allclose((turned**2).mean(0), np.full((3, 3), 1 / 3), atol=0.02)
    assert ours.Rotation.random(tj.random.key(1)).single


def test_between_rotations():
    times = np.sort(RNG.uniform(0, 9, 12))
    got = ours.Slerp(times, ours.Rotation.from_quat(QUATS))
    want = theirs.Slerp(times, theirs.Rotation.from_quat(QUATS))
    at = np.append(RNG.uniform(times[0], times[-1], 50), times)
    near(got(at).as_matrix(), want(at).as_matrix())
    near(tj.jit(lambda slerp, t: slerp(t).as_matrix())(got, at), want(at).as_matrix())
    near(ours.Slerp.init(times, ours.Rotation.from_quat(QUATS))(times[3] + 0.01).as_quat(True),
         want(times[3] + 0.01).as_quat(canonical=True))  # fmt: skip
    two = ours.Slerp(np.array([0.0, 1.0]), ours.Rotation.from_rotvec(np.array([[0, 0, 0.0], [0, 0, 0.5]])))
    near(two(np.array([-1.0, 2.0])).as_rotvec(), [[0, 0, -0.5], [0, 0, 1.0]])  # beyond the ends


def test_they_go_into_and_out_of_compiled_and_mapped_functions():
    r = ours.Rotation.from_quat(QUATS)
    twice = tj.jit(lambda r: r * r)(r)
    assert isinstance(twice, ours.Rotation)
    near(twice.as_matrix(), (r * r).as_matrix())
    near(tj.vmap(lambda r, v: r.apply(v))(r, VECTORS), r.apply(VECTORS))


@pytest.mark.parametrize("at", [np.array([0.3, -0.5, 0.2]), np.zeros(3), np.array([1e-5, 0, 0])])
def test_derivatives(at: Any):
    def f(v: Any) -> Any:
        r = ours.Rotation.from_rotvec(v)
        return np.sum((r * r).as_rotvec() * np.array([1.0, 2.0, 3.0])) + r.apply(np.array([1.0, 2.0, 3.0]))[0]

    slopes = [(f(at + 1e-6 * e) - f(at - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    np.testing.assert_allclose(tj.jit(tj.grad(f))(at), slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ours.Rotation.from_quat(VECTORS), "from_quat: f64.12,3. does not end in axes of 4 elements"),
        (lambda: ours.Rotation.from_matrix(VECTORS), "does not end in axes of 3 and 3 elements"),
        (lambda: ours.Rotation.from_euler("xyq", VECTORS), "'xyq' are no 1 to 3 axes"),
        (lambda: ours.Rotation.from_euler("xxy", VECTORS), "consecutive axes are to be different"),
        (lambda: ours.Rotation.from_euler("xy", VECTORS), "does not end in axes of 2 elements"),
        (lambda: ours.Rotation.identity().as_euler("xy"), "are no 3 to 3 axes"),
        (lambda: ours.Rotation.from_quat(QUATS).mean(np.ones(3)), "weights f64.3. for 12 rotations"),
        (lambda: ours.Rotation.identity().mean(), "the mean of a vector of rotations"),
        (lambda: ours.Slerp(np.arange(3.0), ours.Rotation.from_quat(QUATS)), "times f64.3. for 12 rotations"),
        (lambda: ours.Slerp(np.zeros(1), ours.Rotation.identity(1)), "at least 2 rotations"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, text: str):
    with pytest.raises(ShapeError, match=text):
        call()
