"""Options of `jit`, `tune` and the transformations are checked where they are given."""

from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends import registry
from tracejit.support.errors import BackendUnavailable, OptionError, UnknownBackend, UserError

X = np.arange(3.0)
DERIVATIVES = (tj.grad, tj.value_and_grad, tj.jacfwd, tj.jacrev, tj.hessian)
KNOWN = ", ".join(tj.list_backends())


def double(x: Any) -> Any:
    return x * 2


def total(x: Any) -> Any:
    return np.sum(x * x)


# fmt: off
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (tj.jit, {"backend": "gpu"}, f"tj.jit: there is no backend 'gpu'; registered are {KNOWN}"),
    (tj.jit, {"backend": 3}, "tj.jit: backend is 3; it is the name of a backend, as tj.list_backends() gives"),
    (tj.jit, {"dynamic_shapes": "no"}, "tj.jit: dynamic_shapes is 'no'; it is None, True or False"),
    (tj.jit, {"dynamic_shapes": 1}, "tj.jit: dynamic_shapes is 1; it is None, True or False"),
    (tj.jit, {"writeback": None}, "tj.jit: writeback is None; it is True or False"),
    (tj.jit, {"redirect": "off"}, "tj.jit: redirect is 'off'; it is True or False"),
    (tj.jit, {"alternatives": 3}, "tj.jit: alternatives is 3; it is a sequence of names of lowering rules"),
    (tj.jit, {"alternatives": ("blas", 3)}, "tj.jit: alternatives is ('blas', 3); it is a sequence of names"),
    (tj.jit, {"alternatives": ("mkl",)}, "there is no alternative 'mkl'; registered are blas"),
    (tj.jit, {"donate_argnums": "0"}, "tj.jit: donate_argnums is '0'; it is an integer or a sequence of integers"),
    (tj.jit, {"donate_argnums": None}, "tj.jit: donate_argnums is None; it is an integer or a sequence of integers"),
    (tj.jit, {"donate_argnums": (0, 1.5)}, "tj.jit: donate_argnums is (0, 1.5); it is an integer or a sequence"),
    (tj.jit, {"donate_argnums": True}, "tj.jit: donate_argnums is True; it is an integer or a sequence of integers"),
    (tj.jit, {"donate_argnums": -1}, "tj.jit: donate_argnums are numbers of positional arguments from 0 on, not -1"),
    (tj.tune, {"backend": "gpu"}, f"tj.tune: there is no backend 'gpu'; registered are {KNOWN}"),
    (tj.tune, {"backend": 3}, "tj.tune: backend is 3; it is the name of a backend"),
    (tj.tune, {"dynamic_shapes": "no"}, "tj.tune: dynamic_shapes is 'no'; it is None, True or False"),
    (tj.tune, {"seconds": 0}, "tj.tune: seconds is 0; it is a number of seconds above 0"),
    (tj.tune, {"seconds": float("nan")}, "tj.tune: seconds is nan; it is a number of seconds above 0"),
    (tj.tune, {"seconds": "30"}, "tj.tune: seconds is '30'; it is a number of seconds above 0"),
    (tj.tune, {"default": "vector L0 4"}, "tj.tune: default is 'vector L0 4'; it is a function that gives"),
    (tj.tune, {"database": 3}, "tj.tune: database is 3; it is a path or None"),
    (tj.vmap, {"in_axes": 0.5}, "vmap: in_axes is 0.5; it is an integer, None, or a tuple"),
    (tj.vmap, {"in_axes": (0, "1")}, "vmap: in_axes is (0, '1'); it is an integer, None, or a tuple"),
    (tj.vmap, {"in_axes": {"x": 0}}, "vmap: in_axes is {'x': 0}; it is an integer, None, or a tuple"),
    (tj.vmap, {"out_axes": "0"}, "vmap: out_axes is '0'; it is an integer, None, or a container of them"),
    (tj.vmap, {"out_axes": {"x": 1.0}}, "vmap: out_axes is {'x': 1.0}; it is an integer, None, or a container"),
    (tj.vmap, {"axis_size": "3"}, "vmap: axis_size is '3'; it is the extent of the mapped axis, or None"),
    (tj.vmap, {"axis_size": -1}, "vmap: axis_size is -1; it is the extent of the mapped axis, or None"),
    (tj.vmap, {"axis_size": True}, "vmap: axis_size is True; it is the extent of the mapped axis, or None"),
    *[(f, {"argnums": given}, f"{f.__name__}: argnums is {given!r}; it is an integer or a sequence of integers")
      for f in DERIVATIVES for given in ("0", None, 1.0, True, (0, "1"))],
    *[(f, {"has_aux": 1}, f"{f.__name__}: has_aux is 1; it is True or False") for f in DERIVATIVES],
    *[(f, {"allow_int": None}, f"{f.__name__}: allow_int is None; it is True or False") for f in DERIVATIVES[:-1]],
]
# fmt: on


@pytest.mark.parametrize(("transformation", "options", "text"), REFUSED)
def test_an_option_that_may_not_be_is_refused_where_it_is_given(
    transformation: Any, options: dict[str, Any], text: str
):
    with pytest.raises(UserError) as caught:
        transformation(total, **options)
    assert text in caught.value.message
    assert isinstance(caught.value, ValueError)
    if "registered are" not in text:
        assert isinstance(caught.value, OptionError)
        assert isinstance(caught.value, TypeError)
        assert caught.value.location is not None
        assert caught.value.location.position()[0] == __file__


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: tj.jvp(total, (X,), (X,), has_aux="no"), "jvp"),
        (lambda: tj.vjp(total, X, has_aux=2), "vjp"),
        (lambda: tj.linearize(total, X, has_aux=None), "linearize"),
    ],
)
def test_has_aux_is_true_or_false(call: Any, name: str):
    with pytest.raises(OptionError, match=f"{name}: has_aux is .*; it is True or False"):
        call()


def test_an_unknown_backend_is_one_that_is_unavailable():
    with pytest.raises(UnknownBackend) as caught:
        tj.jit(backend="gpu")
    assert all(isinstance(caught.value, kind) for kind in (BackendUnavailable, UserError, ValueError))


def test_a_backend_that_cannot_load_may_be_named_and_says_why_at_the_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("absent", "tracejit_absent_driver.backend:Absent", priority=1)
    f = tj.jit(double, backend="absent")
    with pytest.raises(
        BackendUnavailable,
        match=r"'absent' cannot be loaded: No module named 'tracejit_absent_driver'",
    ):
        f(X)


def test_what_may_be_given_is_taken():
    np.testing.assert_array_equal(tj.jit(double, backend=None, donate_argnums=np.int64(0))(X.copy()), X * 2)
    np.testing.assert_array_equal(tj.jit(double, dynamic_shapes=True, donate_argnums=[], alternatives="blas")(X), X * 2)
    np.testing.assert_array_equal(tj.grad(total, argnums=np.int32(0))(X), X * 2)
    assert len(tj.grad(total, argnums=range(1))(X)) == 1
    assert tj.vmap(lambda: 1.0, axis_size=np.int64(2))().shape == (2,)
    np.testing.assert_array_equal(
        tj.jit(lambda x: tj.vmap(lambda: np.ones(2), axis_size=x.shape[0])(), dynamic_shapes=True)(X), np.ones((3, 2))
    )
    assert tj.vmap(lambda a: {"b": a}, in_axes=([0],), out_axes={"b": [0]})([X])["b"][0].shape == (3,)
