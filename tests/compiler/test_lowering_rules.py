"""Lowering rules of backends: an override is executed, on its backend only, where its predicate holds,
and can be taken back."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.plain_c import EVERY_BACKEND
from tracejit.backends.registry import backend_reason
from tracejit.compiler.lower import lowering_rules, unregister_lowering
from tracejit.ir.forms import Expand
from tracejit.ir.kernel import index_const
from tracejit.primitives.elementwise import mul
from tracejit.support.errors import UnsupportedError, UserError

pytestmark = pytest.mark.opencl

BACKENDS = EVERY_BACKEND
X, Y = np.arange(6.0).reshape(2, 3), np.full((2, 3), 10.0)


@pytest.fixture
def override() -> Iterator[Callable[..., Any]]:
    """`register_lowering` whose rules are taken back after the test."""
    made: list[Callable[..., Any]] = []

    def register(primitive: str, **options: Any) -> Callable[..., Any]:
        def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
            made.append(rule)
            return tj.register_lowering(primitive, **options)(rule)

        return decorate

    yield register
    for rule in made:
        unregister_lowering(rule)
    assert not {r.rule for r in lowering_rules()} & set(made)


def one_more(primitive: Any, b: Any, x: Any, y: Any) -> Any:
    """A sum that is off by one: the answer shows whether this rule was executed."""
    return b.map(x.shape, lambda i: b.op("add", b.op("add", x[i], y[i]), b.const(1, x.dtype)))


def added(backend: str, x: Any = X, y: Any = Y) -> Any:
    return tj.jit(lambda x, y: x + y, backend=backend)(x, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_override_changes_the_executed_code_of_its_backend_only(
    backend: str, override: Callable[..., Any], record_backend: Callable[[str], None]
):
    record_backend(backend)
    override("add", backend=backend)(one_more)
    for other in BACKENDS:
        if backend_reason(other):
            continue
        np.testing.assert_array_equal(added(other), X + Y + (other == backend))


def test_a_rule_taken_back_leaves_the_primitive_s_own():
    rule = tj.register_lowering("add", backend="cpu")(one_more)
    assert rule is one_more
    np.testing.assert_array_equal(added("cpu"), X + Y + 1)
    unregister_lowering(rule)
    np.testing.assert_array_equal(added("cpu"), X + Y)


def test_the_generated_code_shows_the_override(override: Callable[..., Any]):
    f = tj.jit(lambda x, y: x + y)
    before = f.lower(X, Y).text("code")
    override("add", backend="cpu")(one_more)
    assert f.lower(X, Y).text("code") != before
    assert "1.0" in f.lower(X, Y).text("scheduled")


def test_the_predicate_chooses_by_dtype_and_shape(override: Callable[..., Any]):
    override(
        "add", backend="cpu", predicate=lambda add, x, y: x.dtype == np.float32 and x.ndim == 2 and x.shape[1] == 3
    )(one_more)
    x, y = X.astype("f4"), Y.astype("f4")
    np.testing.assert_array_equal(added("cpu", x, y), x + y + 1)
    np.testing.assert_array_equal(added("cpu"), X + Y)  # float64
    np.testing.assert_array_equal(added("cpu", x[:, :2].copy(), y[:, :2].copy()), (x + y)[:, :2])
    np.testing.assert_array_equal(added("cpu", x[0], y[0]), (x + y)[0])


def test_the_predicate_sees_the_primitive_s_parameters(override: Callable[..., Any]):
    @override("reduce_sum", backend="cpu", predicate=lambda p, x: p.axes == (0,))
    def first_row(p: Any, b: Any, x: Any) -> Any:
        return b.map(x.shape[1:], lambda i: x[(index_const(0), *i)])

    sums = tj.jit(lambda x: (np.sum(x, axis=0), np.sum(x, axis=1)))
    columns, rows = sums(X)
    np.testing.assert_array_equal(columns, X[0])
    np.testing.assert_array_equal(rows, X.sum(axis=1))


def test_the_rule_registered_last_is_asked_first(override: Callable[..., Any]):
    override("add", backend="cpu")(one_more)

    @override("add", backend="cpu", predicate=lambda add, x, y: x.ndim == 1)
    def two_more(primitive: Any, b: Any, x: Any, y: Any) -> Any:
        return b.map(x.shape, lambda i: b.op("add", b.op("add", x[i], y[i]), b.const(2, x.dtype)))

    np.testing.assert_array_equal(added("cpu", X[0], Y[0]), X[0] + Y[0] + 2)
    np.testing.assert_array_equal(added("cpu"), X + Y + 1)  # the later rule does not want it, the earlier one does
    assert [r.rule for r in lowering_rules() if r.primitive == "add"] == [two_more, one_more]


def test_compiled_functions_keep_their_code_until_the_cache_is_cleared(override: Callable[..., Any]):
    f = tj.jit(lambda x, y: x + y)
    np.testing.assert_array_equal(f(X, Y), X + Y)
    override("add", backend="cpu")(one_more)
    np.testing.assert_array_equal(f(X, Y), X + Y)
    f.clear_cache()
    np.testing.assert_array_equal(f(X, Y), X + Y + 1)


def test_overridden_forms_fuse_like_any_other(override: Callable[..., Any]):
    override("add", backend="cpu")(one_more)
    f = tj.jit(lambda x, y: np.sum((x + y) * 2.0, axis=1))
    np.testing.assert_array_equal(f(X, Y), np.sum((X + Y + 1) * 2.0, axis=1))
    assert len(f.lower(X, Y).program.kernels()) == 1


def test_unknown_names_are_errors():
    with pytest.raises(UserError, match=r"no primitive 'addd'; see `python -m tracejit\.primitives`"):
        tj.register_lowering("addd", backend="cpu")
    known = ", ".join(tj.list_backends())
    with pytest.raises(UserError, match=f"no backend 'cpux'; registered are {known}"):
        tj.register_lowering("add", backend="cpux")


def test_backends_are_listed_by_priority():
    assert {"opencl", "cpu", "reference"} <= set(tj.list_backends())


def _counting_down(x: Any) -> Any:
    return tj.lax.while_loop(lambda c: -c < -1.0, lambda c: c * 0.5, x)


def _by_steps(x: Any) -> Any:
    return tj.lax.fori_loop(0, 3, lambda i, c: -c + 1.0, x)


def _of_two(x: Any) -> Any:
    return tj.lax.cond(x > 0, lambda c: tj.lax.cond(c > 1, lambda d: -d, lambda d: d, c), lambda c: c, x)


SCALAR, MAPPED = np.float64(37.0), np.linspace(2.0, 40.0, 7)
IN_BODIES = [(_counting_down, SCALAR), (_by_steps, SCALAR), (_of_two, SCALAR)]


def minus_and_one(neg: Any, b: Any, x: Any) -> Any:
    """A sign that is off by one."""
    return b.map(x.shape, lambda i: b.op("sub", b.const(1.0, x.dtype), x[i]))


def by_a_sum(neg: Any, b: Any, x: Any) -> Any:
    """A sign as a reduction, which no scalar body holds; off by one too."""
    zero, half = b.const(1.0, x.dtype), b.const(-0.5, x.dtype)
    return b.reduce(x.shape, (2,), lambda i, k: b.op("mul", half, x[i]), [zero], lambda r, a, e: [r.op("add", *a, *e)])


def test_rules_hold_in_the_bodies_of_scalar_loops_and_branches(override: Callable[..., Any]):
    def off(function: Any, x: Any) -> Any:
        """What the function gives where a sign is off by one, in Python."""
        c = x
        if function is _counting_down:
            while 1 - c < -1.0:
                c = c * 0.5
        elif function is _by_steps:
            for _ in range(3):
                c = (1 - c) + 1.0
        else:
            c = 1 - c
        return c

    for backend in BACKENDS:
        if backend_reason(backend):
            continue
        for function, x in IN_BODIES:
            plain = tj.jit(function, backend=backend)(x)
            override("neg", backend=backend, alternative="off")(minus_and_one)
            assert tj.jit(function, backend=backend)(x) == plain  # nobody asked for the alternative
            chosen = {"backend": backend, "alternatives": ("off",)}
            assert tj.jit(function, **chosen)(x) == off(function, x)
            if function is not _by_steps:  # vmap makes that one a loop over arrays
                np.testing.assert_array_equal(
                    tj.jit(tj.vmap(function), **chosen)(MAPPED), [off(function, m) for m in MAPPED]
                )
            unregister_lowering(minus_and_one)
            override("neg", backend=backend)(by_a_sum)
            assert tj.jit(function, backend=backend)(x) == off(function, x)  # a loop of kernels
            if function is not _by_steps:
                with pytest.raises(UnsupportedError, match="must give `map` forms"):
                    tj.jit(tj.vmap(function), backend=backend)(MAPPED)
            unregister_lowering(by_a_sum)


def test_a_primitive_that_is_composed_of_others_may_be_a_result_and_stand_in_loops_and_branches(
    override: Callable[..., Any],
):
    """Its last equation makes what the equation that it stands for has made."""
    twice = lambda neg, b, x: Expand(lambda x: mul(mul(x, np.float64(-1)), np.float64(2)))  # noqa: E731
    in_loop = lambda x: tj.lax.fori_loop(0, 3, lambda i, c: -c, x)  # noqa: E731
    several = lambda x: (-x, np.negative(-x), x)  # noqa: E731
    in_branch = lambda x: tj.lax.cond(x[0, 0] >= 0, lambda c: -c, lambda c: c, x)  # noqa: E731
    for backend in BACKENDS:
        if backend_reason(backend):
            continue
        override("neg", backend=backend)(twice)
        for function, factor in ((lambda x: -x, -2), (several, None), (in_loop, -8), (in_branch, -2)):
            f = tj.jit(function, backend=backend)
            got = f(X)
            if factor is None:
                for part, by in zip(got, (-2, 4, 1), strict=True):
                    np.testing.assert_array_equal(part, by * X)
            else:
                np.testing.assert_array_equal(got, factor * X)
        unregister_lowering(twice)
