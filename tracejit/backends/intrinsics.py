"""How targets spell scalar operations, as users extend it: what code generation asks before a backend's own table.

The kernel IR has one table of operations, `ir.scalar.OPS`; a backend has one table of spellings. `register_scalar_op`
adds to the first, `register_intrinsic` to the second.  What a spelling is depends on the backend:

    cpu        LLVM instructions on scalars or vectors, a template: "fadd {type} {0}, {1}", "call {type}
    @llvm.sqrt.{suffix}({type} {0})";
               several lines, `name = instruction` before the last one, which may use {name}
    cuda       the same, on scalars
    opencl     an expression of OpenCL C, a template: "native_exp({0})"
    vulkan     SPIR-V instructions with results, a template: "OpFAdd {type} {0} {1}", "OpExtInst {type} %glsl Exp {0}";
               several lines as on the cpu
    reference  a function of NumPy arrays

{0}, {1}, ... are the operands, {type} is their LLVM type ("float", "<8 x float>") or the id of their SPIR-V type
("%f32"; f16 is computed in f32), {suffix} the name of LLVM's in overloaded intrinsics ("v8f32"), {result} the type of
the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tracejit.backends.registry import backend_reason, check_known, get_backend
from tracejit.ir import math
from tracejit.ir.math.term import Term
from tracejit.ir.scalar import DTYPES, OPS, ScalarOp
from tracejit.support.errors import UserError

__all__ = [
    "DEFINED",
    "Spelling",
    "intrinsics_of",
    "register_intrinsic",
    "register_scalar_op",
    "unregister_intrinsic",
    "unregister_scalar_op",
]

Spelling: TypeAlias = str | Callable[..., Any]
_OWN: dict[str, dict[str, Spelling]] = {}
DEFINED: set[str] = set()
"""The operations that users have registered."""
_STRUCTURAL = ("convert", "bitcast", "select")  # spelled for pairs of dtypes, or by the emitter


def intrinsics_of(backend: str) -> Mapping[str, Spelling]:
    """What users registered for a backend: "op.dtype" to the spelling."""
    return _OWN.get(backend, {})


def register_intrinsic(
    op: str, spelling: Spelling, *, backend: str, dtypes: str | Sequence[str] = ("f32", "f64")
) -> None:
    """Spell the scalar operation `op` on operands of `dtypes` by `spelling` in all code generated for `backend` from
    now on.

    For "opencl" the spelling is an expression of OpenCL C, for "cpu" LLVM instructions, for "vulkan" SPIR-V ones
    (`tracejit.backends.intrinsics` has the grammar), for "reference" a function of NumPy arrays.  A later registration
    replaces an earlier one.  Functions that are compiled already keep their code until `clear_cache()`.

    Raises: UserError for an operation, dtype or backend that there is not, and for what is no spelling there.

    >>> import numpy as np, tracejit as tj
    >>> tj.register_intrinsic("exp", lambda x: 1 + x, backend="reference", dtypes="f32")
    >>> tj.jit(lambda x: np.exp(x), backend="reference")(np.ones(2, np.float32))
    array([2., 2.], dtype=float32)
    >>> from tracejit.backends.intrinsics import unregister_intrinsic
    >>> unregister_intrinsic("exp", backend="reference")
    """
    if op not in OPS:
        raise UserError(f"register_intrinsic: there is no scalar operation {op!r}; register_scalar_op makes one")
    if op in _STRUCTURAL:
        raise UserError(f"register_intrinsic: {op} is written by the code generators themselves")
    check_known(backend, "register_intrinsic")
    names = (dtypes,) if isinstance(dtypes, str) else tuple(dtypes)
    for dtype in names:
        if dtype not in DTYPES:
            raise UserError(f"register_intrinsic: there is no dtype {dtype!r}; there are {', '.join(DTYPES)}")
    if not isinstance(spelling, str) and not callable(spelling):
        raise UserError(f"register_intrinsic: a spelling is a template or a function, not {type(spelling).__name__}")
    if not backend_reason(backend):  # elsewhere it is never used
        fault = get_backend(backend).fault_of_spelling(spelling, OPS[op].arity)
        if fault:
            raise UserError(f"register_intrinsic: the spelling of {op} for the {backend} backend {fault}")
    _OWN.setdefault(backend, {}).update({f"{op}.{dtype}": spelling for dtype in names})


def unregister_intrinsic(op: str, *, backend: str) -> None:
    """Take the spellings of an operation on a backend back, for every dtype."""
    own = _OWN.get(backend, {})
    for key in [k for k in own if k.rpartition(".")[0] == op]:
        del own[key]


def register_scalar_op(
    name: str,
    impl: Callable[..., Any],
    *,
    arity: int = 1,
    cost: float = 8.0,
    expansion: Callable[..., Any] | None = None,
) -> None:
    """A new scalar operation on floating-point operands of one dtype, for lowering rules: `b.op(name, ...)`.

    impl: the function of NumPy arrays that says what it computes.  cost: in vector adds; it steers fusion and threads.
    expansion: the same as a function of terms (`tracejit.ir.math.term.Term`: operators, `x.op("exp")`), which every
    backend then runs. Without one, a backend needs `register_intrinsic`; the reference backend runs `impl`.

    Raises: UserError if there is an operation of that name.

    >>> import numpy as np, tracejit as tj
    >>> tj.register_scalar_op("softplus", lambda x: np.log1p(np.exp(x)), expansion=lambda x: x.op("exp").op("log1p"))
    >>> @tj.register_lowering("tanh", backend="cpu")
    ... def softplus_for_tanh(tanh, b, x):
    ...     return b.map(x.shape, lambda i: b.op("softplus", x[i]))
    >>> bool(np.isclose(tj.jit(lambda x: np.tanh(x))(np.zeros(1))[0], np.log(2)))
    True
    >>> from tracejit.backends.intrinsics import unregister_scalar_op
    >>> from tracejit.compiler.lower import unregister_lowering
    >>> unregister_lowering(softplus_for_tanh); unregister_scalar_op("softplus")
    """
    if name in OPS:
        raise UserError(f"register_scalar_op: there is a scalar operation {name!r} already")
    if not name.isidentifier():
        raise UserError(f"register_scalar_op: {name!r} is no identifier")

    def run(dtype: np.dtype[Any], *args: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(impl(*args)).astype(dtype)

    OPS[name] = ScalarOp(name, arity, "same", cost, run, math=True)
    DEFINED.add(name)
    if expansion is not None:
        math.EXPANSIONS[name] = lambda *terms: _term(expansion(*terms), terms[0])


def _term(result: Any, like: Term) -> Term:
    return result if isinstance(result, Term) else like.const(result)


def unregister_scalar_op(name: str) -> None:
    """Take back an operation that `register_scalar_op` made, and its spellings."""
    if name not in DEFINED:
        raise UserError(f"unregister_scalar_op: {name!r} was not registered by register_scalar_op")
    DEFINED.discard(name)
    del OPS[name]
    math.EXPANSIONS.pop(name, None)
    for backend in _OWN:
        unregister_intrinsic(name, backend=backend)
