"""np.einsum, against NumPy: fixed subscripts, random ones, both calling forms."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ShapeError

EXTENTS = dict(zip("abcdijkl", (2, 3, 4, 5, 3, 4, 5, 2), strict=True))


def operands(subscripts: str, dtype: Any = np.float64) -> list[Any]:
    rng = np.random.default_rng(len(subscripts))
    out: list[Any] = []
    for term in subscripts.split("->")[0].split(","):
        shape = [EXTENTS[a] for a in term.replace("...", "")]
        head = term.index("...") if "..." in term else len(shape)
        full = [*shape[:head], *([2, 3] if "..." in term else []), *shape[head:]]
        out.append((rng.standard_normal(full) * 3).astype(dtype))
    return out


@pytest.mark.parametrize(
    "subscripts",
    [
        "ij,jk->ik", "ij,jk", "ij,jk->ki", "ij->ji", "ij->i", "ij->", "ij", "ji", "ii->i", "ii", "iij->j", "aab->ab",
        "iiii->i", "i,i", "i,i->", "i,j->ij", "i,j->ji", "ij,ij->ij", "ij,ij->", "ij,ij->i", "ijk,ilk->ijl",
        "aij,ajk->aik", "aij,jk->aik", "ij,ajk->iak", "ij,jk,kl->il", "ij,jk,kl", "ijk,jl,kl->il", "i,j,k->kji",
        "ij,j,i->", "...ij,...jk->...ik", "...i->...", "i...->i...", "...ii->...i", "ij...,j->i...", "...,...->...",
        "...", "a...,...b->ab...", "ab,bc,cd,da->", "abc,cd,d->ba", "ii,jj->ij", "ij,kl->", "ab,b,b->a", "aa,ab->b",
    ],
)  # fmt: skip
def test_subscripts(agree: Any, subscripts: str):
    values = operands(subscripts)
    agree(lambda xp, *xs: xp.einsum(subscripts, *xs), *values, rtol=1e-12, symbolic=None if len(values) < 3 else False)
    agree(lambda xp, *xs: xp.einsum(subscripts, *xs), *operands(subscripts, np.int32), symbolic=False, protocols=False)


@pytest.mark.parametrize("seed", range(60))
def test_random_subscripts(seed: int):
    rng = np.random.default_rng(seed)
    terms = ["".join(rng.choice(list("abcdij"), rng.integers(0, 4))) for _ in range(rng.integers(1, 4))]
    letters = sorted({a for t in terms for a in t})
    result = "".join(rng.permutation(letters)[: rng.integers(0, len(letters) + 1)]) if letters else ""
    subscripts = ",".join(terms) + ("->" + result if seed % 3 else "")
    values = operands(subscripts)
    want = np.einsum(subscripts, *values)
    got = tj.numpy.einsum(subscripts, *values)
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11, err_msg=subscripts)
    if seed % 4 == 0:
        np.testing.assert_allclose(
            tj.jit(lambda *xs: np.einsum(subscripts, *xs))(*values), want, rtol=1e-11, atol=1e-11, err_msg=subscripts
        )


@pytest.mark.parametrize(
    "optimize",
    [
        True, "greedy", "optimal", ["einsum_path", (0, 1), (0, 1)], ["einsum_path", (1, 2), (0, 1)],
        ["einsum_path", (0, 1, 2)],
    ],
)  # fmt: skip
def test_any_order_of_contraction(agree: Any, optimize: Any):
    agree(
        lambda xp, *xs: xp.einsum("ij,jk,kl->il", *xs, optimize=optimize),
        *operands("ij,jk,kl"),
        rtol=1e-11,
        symbolic=False,
    )


def test_a_path_of_four_operands(agree: Any):
    for optimize in (True, ["einsum_path", (1, 3), (0, 1, 2)], ["einsum_path", (0, 2, 3), (0, 1)]):
        agree(
            lambda xp, *xs, o=optimize: xp.einsum("ab,bc,cd,da->", *xs, optimize=o),
            *operands("ab,bc,cd,da"),
            rtol=1e-11,
            symbolic=False,
            protocols=False,
        )


def test_lists_of_integers(agree: Any, numbers: Any):
    agree(lambda xp, x, y: xp.einsum(x, [0, 1], y, [1, 2], [0, 2]), numbers((2, 3)), numbers((3, 4)), rtol=1e-12)
    agree(lambda xp, x, y: xp.einsum(x, [0, 1], y, [1, 2]), numbers((2, 3)), numbers((3, 4)), rtol=1e-12)
    agree(lambda xp, x: xp.einsum(x, [Ellipsis, 1], [Ellipsis]), numbers((2, 3)), rtol=1e-12)


def test_extents_of_one_are_spread(agree: Any, numbers: Any):
    agree(lambda xp, x, y: xp.einsum("ij,jk->ik", x, y), numbers((2, 1)), numbers((3, 4)), rtol=1e-12)
    agree(lambda xp, x, y: xp.einsum("...j,...j->...", x, y), numbers((2, 1, 4)), numbers((1, 3, 4)), rtol=1e-12)


def test_a_dtype_can_be_asked_for(agree: Any, numbers: Any):
    agree(
        lambda xp, x, y: xp.einsum("ij,jk->ik", x, y, dtype=np.float64),
        numbers((2, 3), np.float32),
        numbers((3, 4), np.float32),
        rtol=1e-12,
    )


def test_a_large_contraction_needs_no_extents(agree: Any, numbers: Any):
    agree(lambda xp, x, y: xp.einsum("ij,kj->ik", x, y), numbers((7, 5)), numbers((6, 5)), rtol=1e-12, symbolic=True)


@pytest.mark.parametrize(
    ("subscripts", "message"),
    [
        ("ij,jk->ik", "has 2 terms for 1 operands"), ("ijk->i", "3 labels for an operand of rank 2"),
        ("i->i", "1 labels for an operand of rank 2"), ("ij->k", "is in no operand"), ("ij->ii", "appears twice"),
        ("i1->i", "not a letter"), ("ii->i", "stands for extents"), ("...i->i", "drops the axes"),
    ],
)  # fmt: skip
def test_errors_name_the_fault(subscripts: str, message: str):
    with pytest.raises(ShapeError, match=message):
        tj.jit(lambda x: np.einsum(subscripts, x))(np.zeros((2, 3)))


def test_labels_that_disagree_are_named():
    with pytest.raises(ShapeError, match="label 'j' stands for extents 3 and 4"):
        tj.jit(lambda x, y: np.einsum("ij,jk", x, y))(np.zeros((2, 3)), np.zeros((4, 2)))


def test_a_diagonal_of_what_is_not_square_is_refused():
    for shape in ((2, 1), (1, 2), (2, 3)):
        with pytest.raises(ValueError, match="collapsing index 'i'"):
            np.einsum("ii->i", np.ones(shape))
        with pytest.raises(ShapeError, match="stands for extents"):
            tj.jit(lambda x: np.einsum("ii->i", x))(np.ones(shape))
