"""The features that the documents promise, each used end to end as a user would:
through `tracejit` and what `lower` shows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.plain_c import EVERY_BACKEND
from tracejit.backends.cpu.codegen import blas
from tracejit.backends.intrinsics import unregister_intrinsic, unregister_scalar_op
from tracejit.backends.reference.interpreter import run_kernel
from tracejit.backends.registry import backend_reason, get_backend
from tracejit.compiler.lower import unregister_lowering
from tracejit.compiler.pipeline import lower_jaxpr
from tracejit.ir.effects import Effects, effects_of
from tracejit.ir.extents import Dim
from tracejit.ir.forms import Environment, LibraryCall, Whole
from tracejit.ir.kernel import Const
from tracejit.ir.program import Call, step_effects, walk_steps
from tracejit.ir.text import parse_kernel
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import (
    BackendError,
    BackendUnavailable,
    CompileError,
    InternalError,
    ShapeError,
    TracejitError,
    UnsupportedError,
    UserError,
)

pytestmark = pytest.mark.opencl

BACKENDS = EVERY_BACKEND
HERE = [b for b in BACKENDS if not backend_reason(b)]


def normal(*shape: int, dtype: str = "f8", seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, record_backend: Callable[[str], None]) -> str:
    record_backend(request.param)
    assert not backend_reason(request.param)
    return request.param


# -- what backends can do
# ----------------------------------------------------------------------------------------------------------------
def test_each_backend_says_how_it_executes_and_does_so(backend: str):
    found, target = get_backend(backend), get_backend(backend).target()
    assert {"opencl", "cpu", "reference"} <= set(BACKENDS)
    assert found.is_scheduled == bool(target.vector_bits or target.grid)  # others take loops as they are
    x = normal(37, 19)
    f = tj.jit(softmax, backend=backend)
    np.testing.assert_allclose(f(x), softmax(x), rtol=1e-13)
    code = f.lower(x).text("code")
    signs = {
        "cpu": "define i32 @program(ptr %slots)",
        "opencl": "__kernel void kernel_",
        "vulkan": "OpEntryPoint GLCompute %kernel_",
        "reference": "kernel ",
    }
    assert signs.get(backend, "") in code
    if backend == "reference":  # the kernels themselves are what runs
        assert code == f.lower(x).text("scheduled")
    shifted = tj.jit(lambda x: x + 1, backend=backend, donate_argnums=0)
    assert shifted.lower(x).effects.donated == (frozenset({"1"}) if found.donates else frozenset())
    shifted.lower(x).compile()
    if found.is_scheduled:
        compiled: Any = f.lower(x).compile()
        assert compiled.identity()


# -- the intrinsic registry
# --------------------------------------------------------------------------------------------------------------
SPELLINGS: list[Any] = [
    "twice = fadd {type} {0}, {0}\ncall nnan {type} @llvm.sqrt.{suffix}({type} {twice})",
    "twice = OpFAdd {type} {0} {0}\nOpExtInst {type} %glsl Sqrt {twice}",
    "sqrt({0} + {0})",
    lambda x: np.sqrt(x + x),
]


def spelling_for(backend: str) -> Any:
    """The square root of twice the operand as a backend spells it."""
    return next(s for s in SPELLINGS if not get_backend(backend).fault_of_spelling(s, 1))


@pytest.fixture
def spelled() -> Iterator[Callable[..., None]]:
    """`tj.register_intrinsic`, taken back after the test."""
    made: list[tuple[str, str]] = []

    def register(op: str, spelling: Any, *, backend: str, **options: Any) -> None:
        tj.register_intrinsic(op, spelling, backend=backend, **options)
        made.append((op, backend))

    yield register
    for op, backend in made:
        unregister_intrinsic(op, backend=backend)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_user_spells_an_operation_for_one_backend(backend: str, spelled: Callable[..., None], dtype: str):
    x = np.abs(normal(1003, dtype=dtype))
    spelled("exp", spelling_for(backend), backend=backend, dtypes=("f16", "f32", "f64"))
    for other in HERE:
        want = np.sqrt(x + x) if other == backend else np.exp(x)
        np.testing.assert_allclose(tj.jit(lambda x: np.exp(x), backend=other)(x), want, rtol=4 * np.finfo(dtype).eps)
    unregister_intrinsic("exp", backend=backend)
    np.testing.assert_allclose(tj.jit(lambda x: np.exp(x), backend=backend)(x), np.exp(x), rtol=4 * np.finfo(dtype).eps)


def test_the_generated_code_holds_the_user_s_spelling(spelled: Callable[..., None]):
    spelled("exp", "call {type} @llvm.fabs.{suffix}({type} {0})", backend="cpu", dtypes="f32")
    spelled("add", "fsub {type} {0}, {1}", backend="cpu", dtypes="f64")
    f = tj.jit(lambda x: np.exp(x))
    assert "@llvm.fabs.v" in f.lower(np.ones(100, "f4")).text("code")
    assert "@llvm.fabs" not in f.lower(np.ones(100)).text("code")  # registered for f32 only
    # arithmetic too
    np.testing.assert_array_equal(tj.jit(lambda x, y: x + y)(np.full(9, 5.0), np.full(9, 3.0)), np.full(9, 2.0))


def test_a_new_scalar_operation_runs_everywhere_by_its_expansion(backend: str):
    tj.register_scalar_op(
        "logistic_of_square",
        lambda x: 1 / (1 + np.exp(-x * x)),
        expansion=lambda x: 1.0 / ((-(x * x)).op("exp") + 1.0),
        cost=20,
    )
    rule = tj.register_lowering("tanh", backend=backend)(
        lambda p, b, x: b.map(x.shape, lambda i: b.op("logistic_of_square", x[i]))
    )
    try:
        for dtype in ("f2", "f4", "f8"):
            x = normal(257, dtype=dtype)
            want = 1 / (1 + np.exp(-(x.astype("f8") ** 2)))
            np.testing.assert_allclose(
                tj.jit(lambda x: np.tanh(x), backend=backend)(x), want, rtol=8 * np.finfo(dtype).eps
            )
    finally:
        unregister_lowering(rule)
        unregister_scalar_op("logistic_of_square")


def test_a_new_scalar_operation_without_expansion_needs_a_spelling(
    spelled: Callable[..., None], record_backend: Callable[[str], None]
):
    record_backend("opencl")
    tj.register_scalar_op("mean_of_two", lambda x, y: (x + y) / 2, arity=2)
    rules = [
        tj.register_lowering("add", backend=b)(
            lambda p, b, x, y: b.map(x.shape, lambda i: b.op("mean_of_two", x[i], y[i]))
        )
        for b in BACKENDS
    ]
    x, y = normal(100), normal(100, seed=4)

    def mean(backend: str) -> Any:
        return tj.jit(lambda x, y: x + y, backend=backend)(x, y)

    try:
        np.testing.assert_array_equal(mean("reference"), (x + y) / 2)  # by its definition
        with pytest.raises(
            UnsupportedError, match=r"mean_of_two .* tj\.register_intrinsic\('mean_of_two', \.\.\., backend='cpu'"
        ) as cpu:
            mean("cpu")
        with pytest.raises(
            UnsupportedError, match=r"mean_of_two of f64 has no expansion .* tj\.register_intrinsic does"
        ) as opencl:
            mean("opencl")
        assert None not in (cpu.value.location, opencl.value.location)
        spelled(
            "mean_of_two",
            "sum = fadd {type} {0}, {1}\ntwice = fadd {type} {sum}, {sum}\nfsub {type} {sum}, {twice}",
            backend="cpu",
        )
        np.testing.assert_array_equal(mean("cpu"), -(x + y))
        spelled("mean_of_two", "({0} + {1}) / 2", backend="opencl")
        np.testing.assert_array_equal(mean("opencl"), (x + y) / 2)
        if not backend_reason("vulkan"):
            spelled(
                "mean_of_two", "sum = OpFAdd {type} {0} {1}\nOpFSub {type} {sum} {0}", backend="vulkan", dtypes="f64"
            )
            np.testing.assert_allclose(mean("vulkan"), y, rtol=1e-12, atol=1e-12)
    finally:
        for rule in rules:
            unregister_lowering(rule)
        unregister_scalar_op("mean_of_two")
    np.testing.assert_array_equal(mean("cpu"), x + y)


def test_registrations_that_cannot_be_are_refused():
    for call, message in [
        (lambda: tj.register_intrinsic("expp", "{0}", backend="cpu"), "there is no scalar operation 'expp'"),
        (lambda: tj.register_intrinsic("exp", "{0}", backend="cpux"), "there is no backend 'cpux'"),
        (lambda: tj.register_intrinsic("exp", "{0}", backend="cpu", dtypes="float"), "there is no dtype 'float'"),
        (lambda: tj.register_intrinsic("convert", "{0}", backend="cpu"), "written by the code generators"),
        (lambda: tj.register_intrinsic("exp", 3, backend="cpu"), "a template or a function, not int"),  # type: ignore[arg-type]
        (lambda: tj.register_scalar_op("exp", np.exp), "there is a scalar operation 'exp' already"),
        (lambda: unregister_scalar_op("exp"), "was not registered by register_scalar_op"),
    ]:
        with pytest.raises(UserError, match=message):
            call()


@pytest.mark.parametrize(
    ("backend", "op", "wrong", "fault"),
    [
        ("cpu", "exp", np.exp, "is a template of LLVM instructions, not <ufunc 'exp'>"),
        ("cpu", "exp", " ", "is empty"),
        ("cpu", "exp", "fadd {type} {0}, {1}", "names '1', which there is not; it may have {0}, {type}, {suffix}, {r"),
        ("cpu", "add", "sum = fadd {type} {0}, {1}\nfmul {type} {sum}, {half}", "names 'half', which there is not"),
        ("cpu", "add", "fadd {type} {sum}, {1}\nsum = fadd {type} {0}, {1}", "names 'sum', which there is not"),
        ("cpu", "exp", "fadd {type {0}", "is no template: unexpected '{' in field name; braces of"),
        ("opencl", "exp", np.exp, "is a template of expressions of OpenCL C, not <ufunc 'exp'>"),
        ("opencl", "add", "{0} + {2}", "names '2', which there is not; it may have {0}, {1}: '{0} + {2}'"),
        ("opencl", "exp", "({type})exp({0})", "names 'type', which there is not; it may have {0}: "),
        ("opencl", "exp", "exp({})", "names '', which there is not"),
        ("opencl", "exp", "exp({0:.3f})", "names '0:.3f', which there is not"),
        ("vulkan", "exp", np.exp, "is a template of SPIR-V instructions, not <ufunc 'exp'>"),
        ("vulkan", "exp", "exp({0})", "has 'exp({0})' where an instruction with a result should be, as OpFAdd {type}"),
        ("vulkan", "exp", "OpStore {0} {0}", "has 'OpStore' where an instruction with a result should be"),
        ("reference", "exp", "{0}", "is a function of NumPy arrays, not '{0}'"),
        ("reference", "add", lambda x: x, "is called with 2 arrays, which it does not take: "),
    ],
)  # fmt: skip
def test_what_is_no_spelling_is_refused_with_what_it_may_have(
    backend: str, op: str, wrong: Any, fault: str, record_backend: Callable[[str], None]
):
    record_backend(backend)
    with pytest.raises(UserError) as caught:
        tj.register_intrinsic(op, wrong, backend=backend)
    assert f"register_intrinsic: the spelling of {op} for the {backend} backend {fault}" in caught.value.message


# -- lowering rules ----------------------------------------------------------------------------------------------------
def test_a_lowering_rule_replaces_the_default_of_one_backend(backend: str):
    x, y = normal(6, 5), normal(6, 5, seed=4)

    @tj.register_lowering("sub", backend=backend, predicate=lambda sub, x, y: x.ndim == 2)
    def the_other_way(sub: Any, b: Any, x: Any, y: Any) -> Any:
        return b.map(x.shape, lambda i: b.op("sub", y[i], x[i]))

    try:
        for other in HERE:
            f = tj.jit(lambda x, y: x - y, backend=other)
            np.testing.assert_array_equal(f(x, y), y - x if other == backend else x - y)
            np.testing.assert_array_equal(f(x[0], y[0]), x[0] - y[0])
    finally:
        unregister_lowering(the_other_way)


# -- matrix products: register tiles, and BLAS as an alternative
# -------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_blas_is_an_alternative_for_products_of_matrices(dtype: str):
    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.tanh(x @ w.T + b)

    own, other = tj.jit(layer), tj.jit(layer, alternatives=("blas",))
    tolerance = 200 * np.finfo(dtype).eps
    for m, n, k in [(3, 4, 5), (33, 70, 129), (128, 128, 128)]:
        x, w, b = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype, seed=1), normal(n, dtype=dtype, seed=2)
        exact = layer(x.astype("f8"), w.astype("f8"), b.astype("f8"))
        np.testing.assert_allclose(own(x, w, b), exact, atol=tolerance)
        np.testing.assert_allclose(other(x, w, b), exact, atol=tolerance)
        np.testing.assert_allclose(other(x[::-1], w[:, ::-1], b), layer(x[::-1], w[:, ::-1], b), atol=tolerance)
        np.testing.assert_allclose(other(x.T.copy().T, w, b), exact, atol=tolerance)
    letter = {"f4": "s", "f8": "d"}[dtype]
    libraries = [where for name, where in other.lower(x, w, b).report if name == "dot_general"]
    assert len(libraries) == 1
    assert f"cblas_{letter}gemm" in libraries[0]
    assert f'call void @"{libraries[0]}"' in other.lower(x, w, b).text("code")
    assert f"call {libraries[0]}(" in other.lower(x, w, b).text("program")
    assert "blas" not in own.lower(x, w, b).text("code")
    assert other.compilations == 3 * own.compilations  # three layouts; a second size is symbolic for each


def test_blas_in_loops_gradients_and_batches():
    a, x = normal(20, 20) / 9, normal(20, 20, seed=5)

    def power(a: Any, x: Any) -> Any:
        return np.sum(tj.lax.fori_loop(0, 5, lambda i, x: np.tanh(a @ x), x))

    plain, other = tj.jit(tj.grad(power)), tj.jit(tj.grad(power), alternatives="blas")
    assert "blas." in other.lower(a, x).text("program")
    np.testing.assert_allclose(other(a, x), plain(a, x), rtol=1e-9, atol=1e-12)
    batch = tj.jit(tj.vmap(lambda a, x: a @ x), alternatives=("blas",))
    stack = normal(3, 20, 20)
    assert "blas." not in batch.lower(stack, stack).text("program")  # batches are products of the generated code
    np.testing.assert_allclose(batch(stack, stack), stack @ stack, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((3, 0), (0, 4)), ((3,), (3, 4)), ((2, 3), (3,))])
def test_blas_leaves_other_products_to_generated_code(shapes: Any):
    x, y = (normal(*shape) for shape in shapes)
    f = tj.jit(lambda x, y: x @ y, alternatives=("blas",))
    assert "blas." not in f.lower(x, y).text("program")
    np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-13)
    i = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(f(i, i.T), i @ i.T)


def test_a_blas_of_32_bit_integers_gets_no_extents_that_are_unknown_or_too_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracejit.compiler.lower._FORMS", {})  # what is lowered here must not be found later
    monkeypatch.setattr(blas, "_gemm", lambda letter: (f"cblas_{letter}gemm", "i32"))
    product = tj.jit(lambda x, y: x @ y).lower(normal(3, 4), normal(4, 5)).jaxpr.equations[0].primitive

    def fits(*shape: Any) -> bool:
        return blas.fits(product, ShapedArray(shape, np.float32), ShapedArray((shape[1], 5), np.float32))

    assert fits(3, 4)
    assert not fits(2**31, 4)
    assert not fits(Dim.symbol("n"), 4)
    f = tj.jit(lambda x, y: x @ y.T, alternatives="blas")
    text = f.lower(normal(6, 7, dtype="f4"), normal(8, 7, dtype="f4")).text("program")
    assert "blas.cblas_sgemm(101:i32, 111:i32, 111:i32, 6:i32, 8:i32, 7:i32, " in text


def test_a_user_s_library_function_is_called_by_a_lowering_rule(record_backend: Callable[[str], None]):
    import ctypes

    seen: list[int] = []

    @ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_double, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double)
    )
    def scale(n: int, factor: float, x: Any, out: Any) -> None:
        seen.append(n)
        for i in range(n):
            out[i] = factor * x[i]

    library = Environment("mine", lambda symbol: ctypes.cast(scale, ctypes.c_void_p).value or 0)

    def rule(p: Any, b: Any, x: Any) -> LibraryCall:
        return LibraryCall(
            "scale", library, (b.extent(x.shape[0]), Const(3.0, "f64"), Whole("operand", 0), Whole("result", 0))
        )

    rules = [
        tj.register_lowering("neg", backend=b, alternative="mine", predicate=lambda p, x: x.ndim == 1)(rule)
        for b in BACKENDS
    ]
    try:
        f = tj.jit(lambda x: -(x + 1) + 1, alternatives=("mine",))
        for n in (4, 5, 6):
            np.testing.assert_array_equal(f(np.ones(n)), np.full(n, 7.0))
        assert (seen, f.compilations) == ([4, 5, 6], 2)
        np.testing.assert_array_equal(tj.jit(lambda x: -x)(np.ones(3)), -np.ones(3))  # only where asked for
        record_backend("opencl")
        with pytest.raises(
            UnsupportedError, match=r"the opencl backend calls no libraries of this process \(mine\.scale\)"
        ):
            tj.jit(lambda x: -x, backend="opencl", alternatives=("mine",))(np.ones(3))
    finally:
        unregister_lowering(rules[0])
    with pytest.raises(UserError, match="there is no alternative 'mine'; registered are blas"):
        tj.jit(lambda x: -x, alternatives=("mine",))


def test_a_library_that_is_not_there_is_an_error_with_the_line():
    def find(symbol: str) -> int:
        raise BackendUnavailable(f"no {symbol} here")

    rule = tj.register_lowering("neg", backend="cpu", alternative="absent")(
        lambda p, b, x: LibraryCall("negate", Environment("absent", find), (Whole("operand", 0), Whole("result", 0)))
    )
    try:
        with pytest.raises(BackendUnavailable, match="no negate here") as error:
            tj.jit(lambda x: -x, alternatives=("absent",))(np.ones(3))
        assert error.value.location is not None
    finally:
        unregister_lowering(rule)


def test_products_run_in_register_tiles():
    x, y = normal(160, 150, dtype="f4"), normal(150, 170, dtype="f4")
    f = tj.jit(lambda x, y: np.maximum(x @ y, 0))
    lowered = f.lower(x, y)
    assert "tile" in lowered.text("schedule")
    assert len(lowered.program.kernels()) == 1  # with what follows
    np.testing.assert_allclose(f(x, y), np.maximum(x.astype("f8") @ y.astype("f8"), 0), rtol=1e-4, atol=1e-4)


# -- errors ------------------------------------------------------------------------------------------------------------
def test_errors_say_backend_primitive_line_and_the_compiler_s_log(
    spelled: Callable[..., None], record_backend: Callable[[str], None]
):
    record_backend("opencl")
    x = np.ones(5, "f4")
    broken = {"cpu": "fadd {type} {0}, undefined_word", "opencl": "undefined_word({0})"}
    for backend, spelling in broken.items():
        spelled("exp", spelling, backend=backend, dtypes="f32")
        f = tj.jit(lambda x: np.exp(x), backend=backend)
        for call in (f, lambda x, f=f: f.lower(x).compile(), f):
            with pytest.raises(CompileError) as error:
                call(x)
            e = error.value
            assert isinstance(e, (TracejitError, BackendError, RuntimeError))
            assert (e.backend, e.primitive) == (backend, "exp")
            assert e.location is not None
            assert "test_features.py" in str(e)
            assert "np.exp(x)" in str(e)
            assert "undefined_word" in e.source
            assert "undefined_word" in e.log
            assert e.log.strip() in str(e)
        unregister_intrinsic("exp", backend=backend)
        f.clear_cache()
        np.testing.assert_allclose(f(x), np.exp(x), rtol=1e-6)  # nothing of the failure stays


def test_errors_of_tracing_and_lowering_are_of_the_same_tree(backend: str):
    with pytest.raises(ShapeError) as shapes:
        tj.jit(lambda x, y: tj.lax.add(x, y), backend=backend)(np.ones(3), np.ones(4))
    assert (shapes.value.primitive, isinstance(shapes.value, (TracejitError, ValueError))) == ("add", True)

    @tj.register_lowering("tanh", backend=backend)
    def refuse(tanh: Any, b: Any, x: Any) -> Any:
        raise UnsupportedError("no tanh today")

    try:
        with pytest.raises(NotImplementedError, match="no tanh today") as lowering:
            tj.jit(lambda x: np.cos(x) + np.tanh(x), backend=backend)(np.ones(3))
    finally:
        unregister_lowering(refuse)
    assert (lowering.value.backend, lowering.value.primitive) == (backend, "tanh")
    assert str(lowering.value).splitlines()[-1].strip() == "^" * len("np.tanh(x)")


def test_a_backend_that_is_not_there_is_an_error_with_name_and_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_DISABLE", "cpu")
    for name, message in [
        ("metal", f"no backend 'metal'; registered are {', '.join(tj.list_backends())}"),
        ("cpu", "switched off by TRACEJIT"),
    ]:
        with pytest.raises(BackendUnavailable, match=message) as error:
            tj.jit(lambda x: x + 1, backend=name)(np.ones(3))
        assert error.value.backend == name
        assert error.value.location is not None


@pytest.mark.parametrize("backend", ["cpu", "opencl"])  # the reference runs every operation by its definition
def test_an_operation_without_a_spelling_points_to_its_own_line(backend: str, record_backend: Callable[[str], None]):
    record_backend(backend)
    tj.register_scalar_op("unspelled", lambda x: x)
    rule = tj.register_lowering("tanh", backend=backend)(
        lambda p, b, x: b.map(x.shape, lambda i: b.op("unspelled", x[i]))
    )
    try:
        with pytest.raises(UnsupportedError) as error:
            tj.jit(lambda x: np.cos(x) * np.tanh(x), backend=backend)(np.ones(3))
    finally:
        unregister_lowering(rule)
        unregister_scalar_op("unspelled")
    assert (error.value.backend, error.value.primitive) == (backend, "tanh")
    assert str(error.value).splitlines()[-1].strip() == "^" * len("np.tanh(x)")


# -- effects -----------------------------------------------------------------------------------------------------------
def in_place(target: Any, x: Any, unused: Any) -> Any:
    target[1:-1] += x[1:-1]
    return x * 2


def test_executables_say_what_they_read_and_write(backend: str):
    f = tj.jit(in_place, backend=backend)
    args = np.zeros(5), np.ones(5), np.ones(3)
    lowered = f.lower(*args)
    assert lowered.effects == Effects(frozenset({"1", "2"}), frozenset({"1"}), frozenset())
    f(*args)
    np.testing.assert_array_equal(args[0], [0, 1, 1, 1, 0])
    named = tj.jit(lambda *, a, b: a["w"] @ b[0], backend=backend).lower(
        a={"w": np.ones((3, 3)), "v": args[0]}, b=[np.ones(3)]
    )
    assert named.effects.reads == {"'a'['w']", "'b'[0]"}
    assert not named.effects.writes
    captured = np.ones(5)
    assert tj.jit(lambda x: x + captured, backend=backend).lower(np.ones(5)).effects.reads == {"1", "captured 1"}


def test_an_executable_carries_its_program_and_its_effects(backend: str):
    executable: Any = (
        tj.jit(lambda x, y: np.cumsum(x, axis=0) * 2, backend=backend).lower(normal(9, 4), normal(3)).compile()
    )
    assert effects_of(executable.program) == Effects(frozenset({0}), frozenset(), frozenset())
    for step in walk_steps(executable.program.steps):
        reads, writes = step_effects(step)
        assert {b.role for b in writes} <= {"output", "temporary"}
        assert reads | writes


def test_writes_of_a_library_call_are_known():
    program = tj.jit(lambda x, y: x @ y + 1, alternatives="blas").lower(normal(3, 4), normal(4, 5)).program
    (call,) = (s for s in walk_steps(program.steps) if isinstance(s, Call))
    reads, writes = step_effects(call)
    assert reads == set(program.inputs)
    assert writes == set(call.writes)


def heat(u: Any) -> Any:
    def step(i: Any, u: Any) -> Any:
        u = u.copy()
        u[1:-1] += 0.1 * (u[:-2] - 2 * u[1:-1] + u[2:])
        return u

    return tj.lax.fori_loop(0, 7, step, u)


def reversed_copy(u: Any) -> Any:
    return u[::-1].copy()[::-1]


def fortran_copy(u: Any) -> Any:
    return np.array(u, order="F")


def read_only_copy(u: Any) -> Any:
    u = u.copy()
    u.flags.writeable = False
    return u


@pytest.mark.parametrize(
    "function",
    [
        lambda u: u * 2 + 1, lambda u: u / (1 + np.exp(-u)), heat, lambda u: (u[::-1] + 0.0) * np.sqrt(np.sum(u * u)),
        softmax, lambda u: np.cumsum(u, axis=0) + u, lambda u: (u + 1, u * 2),
        lambda u: np.where(u > 0, u, np.roll(u, 1)),
    ],
    ids=["map", "silu", "heat", "reversed", "softmax", "scan", "two results", "neighbours"],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (1003,), (100_003,), (33, 65)], ids=str)
def test_donated_arguments_never_change_a_result(function: Any, shape: Any):
    u = normal(*shape)
    want = tj.jit(function)(u)
    for copy in (np.array, reversed_copy, fortran_copy, read_only_copy):
        f = tj.jit(function, donate_argnums=0)
        # Bits depend on how an argument lies in memory, by which loops are arranged, and on nothing else.
        same = tj.jit(function)(copy(u))
        np.testing.assert_allclose(same, want, rtol=1e-13, atol=1e-13)
        for _ in range(3):
            np.testing.assert_array_equal(f(copy(u)), same)
    # The interpreter, whose parallel iterations are checked, agrees on the program that writes into its argument.
    if u.size < 3000:
        program = f.lower(u).program
        results = get_backend("reference").compile(program).run([u.copy()], {})
        np.testing.assert_allclose(results if isinstance(want, tuple) else results[0], want, rtol=1e-9, atol=1e-11)


def test_donation_changes_nothing_where_arguments_are_copied(record_backend: Callable[[str], None]):
    record_backend("opencl")
    for backend in ("reference", "opencl"):
        f = tj.jit(lambda u: u * 2, backend=backend, donate_argnums=0)
        u = np.ones(5)
        np.testing.assert_array_equal(f(u), np.full(5, 2.0))
        np.testing.assert_array_equal(u, np.ones(5))
        assert not f.lower(u).effects.donated


def test_a_donated_array_is_the_result():
    f = tj.jit(lambda u, dt: u + dt * np.sin(u), donate_argnums=(0,))
    assert f.lower(np.ones(9), 0.1).effects.donated == {"1"}
    for n in (9, 1000, 12, 70_000, 9):
        u = normal(n)
        want = u + 0.1 * np.sin(u)
        assert f(u, 0.1) is u
        np.testing.assert_allclose(u, want, rtol=1e-14)
    assert f.compilations == 2
    stepped = tj.jit(heat, donate_argnums=0)
    u = normal(100)
    assert stepped(u) is u  # seven steps end in the other one of two buffers and are copied home


def test_memory_that_cannot_be_given_away_is_copied():
    f = tj.jit(lambda x, y: (x - y, x + y), donate_argnums=(0, 1))
    for _ in range(3):
        base = np.arange(101.0)
        minus, plus = f(base[1:], base[:-1])  # overlap
        np.testing.assert_array_equal(minus, np.ones(100))
        np.testing.assert_array_equal(plus, 2 * np.arange(100.0) + 1)
        np.testing.assert_array_equal(base, np.arange(101.0))
        minus, plus = f(base, base)
        np.testing.assert_array_equal(plus, 2 * np.arange(101.0))
        base.flags.writeable = False
        minus, plus = f(base, np.ones(101))
        np.testing.assert_array_equal(plus, np.arange(101.0) + 1)
        np.testing.assert_array_equal(base, np.arange(101.0))
    outside = np.arange(5.0)
    g = tj.jit(lambda x: x[::-1] + outside, donate_argnums=0)
    for _ in range(3):
        np.testing.assert_array_equal(g(outside), np.full(5, 4.0))
    assert not g.lower(outside).effects.donated


def test_transformations_and_tuning_give_nothing_away(tmp_path: Path):
    f = tj.jit(lambda x: np.sum(x * x), donate_argnums=0)
    x = normal(50)
    kept = x.copy()
    np.testing.assert_allclose(tj.grad(f)(x), 2 * kept)
    tj.tune(tj.jit(lambda x: x + 1, donate_argnums=0), seconds=0.1, database=tmp_path / "schedules.txt")(x)
    np.testing.assert_array_equal(x, kept)


def test_donations_that_cannot_be_are_refused():
    with pytest.raises(UserError, match="numbers of positional arguments from 0 on, not -1"):
        tj.jit(lambda x: x, donate_argnums=-1)
    with pytest.raises(UserError, match=r"donate_argnums=1: .* was called with 1 positional arguments"):
        tj.jit(lambda x: x + 1, donate_argnums=1)(np.ones(3))
    kept = tj.numpy.ones(3)  # which never changes
    tj.jit(lambda x: x + 1, donate_argnums=0)(kept)
    assert kept.tolist() == [1, 1, 1]


# -- fusion ------------------------------------------------------------------------------------------------------------
def test_every_stored_value_has_a_printable_reason(backend: str):
    def f(x: Any, w: Any) -> Any:
        h = np.tanh(x @ w)  # the product's epilogue
        c = np.cumsum(h, axis=0)
        return c[::-1] - h.mean(axis=1, keepdims=True), h.max()

    x, w = normal(70, 60), normal(60, 50)
    compiled = tj.jit(f, backend=backend)
    lowered = compiled.lower(x, w)
    lines = lowered.text("fused").splitlines()
    kernels = [line for line in lines if line.startswith("kernel ")]
    stored = [line for line in lines if line.startswith("stored ")]
    assert kernels[0] == "kernel 0: dot_general tanh"
    assert len(kernels) == len(lowered.program.kernels()) == 3
    assert len(kernels) + len(stored) == len(lines)
    reasons = [line.partition(": ")[2] for line in stored]
    assert reasons.count("it is a result of the program") == 2
    assert any(r.startswith("several kernels read it: ") for r in reasons)
    assert "a Scan is stored" in reasons
    for got, want in zip(compiled(x, w), f(x, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_producers_siblings_and_reductions_share_a_kernel(backend: str):
    x = normal(64, 48)
    for f in (
        softmax,
        lambda x: (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5),
        lambda x: (np.exp(x).sum(axis=1), np.exp(x).max(axis=1)),
        lambda x: np.sum(np.abs(x[:, None, :] - x[None, :, :]), axis=2),
    ):
        compiled = tj.jit(f, backend=backend)
        assert len(compiled.lower(x).program.kernels()) == 1
        for got, want in zip(np.atleast_2d(compiled(x)), np.atleast_2d(f(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_fused_programs_equal_those_whose_every_value_is_stored(backend: str):
    def f(x: Any) -> Any:
        y = np.cumsum(np.sqrt(np.abs(x)), axis=1)
        return np.sum(y[:, ::2] * y[:, 1::2], axis=0) + np.max(x)

    x = normal(12, 20)
    staged = tj.jit(f, backend=backend).lower(x).jaxpr
    where = get_backend(backend)
    results: list[np.ndarray] = []
    for inline in (True, False):
        program = lower_jaxpr(staged, where, ["C"], inline=inline).program
        results += where.compile(program).run([x], {})
        assert (len(program.kernels()) > 4) == (not inline)
    np.testing.assert_allclose(*results, rtol=1e-12)


# -- indices and sizes known at run time
# -------------------------------------------------------------------------------------------------
def test_dynamic_indices_and_trip_counts_never_recompile(backend: str):
    x = normal(40)
    window = tj.jit(lambda x, i: np.sum(tj.lax.dynamic_slice(x, (i,), (7,))), backend=backend)
    put = tj.jit(lambda x, i, v: tj.lax.dynamic_update_slice(x, v, (i,)), backend=backend)
    total = tj.jit(lambda x, n: tj.lax.fori_loop(0, n, lambda i, s: s + x[i], 0.0), backend=backend)
    for i in (3, 0, 17, 33, 21):
        np.testing.assert_allclose(window(x, i), x[i : i + 7].sum(), rtol=1e-13)
        np.testing.assert_array_equal(put(x, i, np.zeros(2)), np.concatenate([x[:i], [0, 0], x[i + 2 :]]))
        np.testing.assert_allclose(total(x, i), x[:i].sum(), rtol=1e-12, atol=1e-14)
    for f in (window, put, total):
        assert f.compilations == 1
    column = tj.jit(lambda x, i: x[:, i] - x[i], backend=backend)
    square = x[:36].reshape(6, 6)
    for i in (0, 5, 2, -1):
        np.testing.assert_array_equal(column(square, i), square[:, i] - square[i])
    assert column.compilations == 1


def test_new_sizes_never_recompile_after_the_second(backend: str):
    def f(x: Any, w: Any) -> Any:
        y = np.maximum(x @ w, 0.0)
        z = y.copy()
        z[1:-1] += y[2:] - y[:-2]
        return np.cumsum(z, axis=0), softmax(y), z[::-1, ::2]

    compiled, gradient = (
        tj.jit(f, backend=backend),
        tj.jit(tj.grad(lambda x, w: np.sum(f(x, w)[1] ** 2)), backend=backend),
    )
    sizes = np.random.default_rng(8).integers(3, 40, (10, 3))
    for m, k, n in sizes:
        x, w = normal(m, k), normal(k, n)
        for got, want in zip(compiled(x, w), f(x, w), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
        assert gradient(x, w).shape == (m, k)
    assert compiled.compilations == 2
    assert gradient.compilations == 2


# -- the reference interpreter
# -----------------------------------------------------------------------------------------------------------
def test_the_reference_interpreter_is_one_switch_away(monkeypatch: pytest.MonkeyPatch):
    x = normal(50, 3)
    f = tj.jit(lambda x: np.sum(softmax(x) * x, axis=1))
    monkeypatch.setattr(tj.config, "backend", "reference")
    assert "on reference" in (f(x), f.explain())[1]
    np.testing.assert_allclose(f(x), np.sum(softmax(x) * x, axis=1), rtol=1e-13)


KERNEL = (
    "kernel f(x: f64[4] C, out: f64[4] C out) { for %i in 0..4 parallel { %j = add %i FROM; %v = load x[%j]; "
    "store out[TO] = %v } }"
)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [("1", "%i", "x of shape .* is accessed at 4"), ("0", "0", "iterations 0 and 3 .* both store to")],
)
def test_the_reference_interpreter_checks_what_kernels_do(source: str, target: str, message: str):
    kernel = parse_kernel(KERNEL.replace("FROM", source).replace("TO", target))
    with pytest.raises(InternalError, match=message):
        run_kernel(kernel, {"x": np.ones(4), "out": np.zeros(4)}, {})
