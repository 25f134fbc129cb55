"""`tj.native`: expressions that users write in the languages of backends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any

import numpy as np

from tracejit.api import native_kernels
from tracejit.api.custom import custom_jvp, custom_vjp
from tracejit.api.option_checks import expect
from tracejit.api.transform import checked_function, name_of
from tracejit.backends.intrinsics import Spelling, register_intrinsic, register_scalar_op
from tracejit.backends.registry import backend_reason, check_known, get_backend
from tracejit.ir.scalar import OPS
from tracejit.primitives.native import Native, NativeExpression
from tracejit.support.errors import UserError
from tracejit.support.source import user_location
from tracejit.tracer.interpreter import bind
from tracejit.tracer.operators import OPERATORS

__all__ = ["native"]

_DTYPES = ("f16", "f32", "f64")
_OPS: dict[tuple[Any, ...], str] = {}
"""Operations by what they are made of: the same sources are one, as an operation stays for good."""


class native:
    """A function of elements whose expression is written in the languages of backends: `native(*arrays)`.
    `native.kernel` and `native.from_file` take whole kernels.

    sources: backends to templates over the operands {0}, {1}, ..., as `tj.register_intrinsic` takes them: an expression
    of OpenCL C for "opencl", LLVM instructions for "cpu" and "cuda", SPIR-V ones for "vulkan", a function of NumPy
    arrays for "reference".  Operands are brought to one floating-point dtype, which the result has; the expression is
    fused with what is around it.
    fallback: a function of arrays that computes the same. It is traced on backends without a source, and differentiated
    where there is no `defjvp` or `defvjp`.  name: for messages.

    Raises: UserError for what is no source; UnsupportedError where a backend has neither source nor fallback, and for
    derivatives without fallback or rule.

    >>> import numpy as np, tracejit as tj
    >>> root = tj.native({"cpu": "call {type} @llvm.sqrt.{suffix}({type} {0})"}, fallback=np.sqrt)
    >>> tj.jit(lambda x: root(x) + 1)(np.array([4.0, 9.0]))
    array([3., 4.])
    >>> float(tj.grad(root)(4.0))
    0.25
    """

    def __init__(
        self,
        sources: Mapping[str, Spelling],
        *,
        fallback: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        expect(_is_mapping(sources), "tj.native", "sources", sources, "a dict of backends and their templates")
        if fallback is not None:
            checked_function("native", fallback)
        self.__name__ = name or (name_of(fallback) if fallback is not None else "a native expression")
        self.fallback = fallback
        for backend in sources:
            check_known(backend, "tj.native")
        self.arity = max(_arity(s) for s in sources.values())
        for backend, source in sources.items():
            fault = "" if backend_reason(backend) else get_backend(backend).fault_of_spelling(source, self.arity)
            if fault or not self.arity:
                raise UserError(
                    f"tj.native: the source of {self.__name__} for the {backend} backend "
                    f"{fault or 'has no operand {0}'}",
                    location=user_location(),
                )
        reference: Any = sources.get("reference")
        self._primitive = Native(
            NativeExpression(self.__name__, _operation(sources, self.arity), frozenset(sources), reference, fallback)
        )
        self._rule: custom_jvp | custom_vjp | None = None

    kernel = staticmethod(native_kernels.kernel)
    from_file = staticmethod(native_kernels.from_file)

    def __repr__(self) -> str:
        return f"<tj.native {self.__name__}>"

    def __call__(self, *args: Any) -> Any:
        if len(args) != self.arity:
            raise UserError(
                f"{self.__name__} (tj.native) takes {self.arity} operand{'s' if self.arity > 1 else ''}, "
                f"not {len(args)}",
                location=user_location(),
            )
        return self._plain(*args) if self._rule is None else self._rule(*args)

    def _plain(self, *args: Any) -> Any:
        return bind(self._primitive, *OPERATORS.floats(*args))

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """The derivative: `jvp(primals, tangents) -> (result, tangent of the result)`, as `tj.custom_jvp` has it.

        >>> import numpy as np, tracejit as tj
        >>> double = tj.native({"cpu": "fadd {type} {0}, {0}"})
        >>> _ = double.defjvp(lambda primals, tangents: (double(*primals), 2 * tangents[0]))
        >>> tj.jit(tj.grad(lambda x: np.sum(double(x) ** 2)))(np.array([1.0, 3.0]))
        array([ 8., 24.])
        """
        rule = custom_jvp(self._plain)
        rule.defjvp(jvp)
        self._rule = rule
        return jvp

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """The derivative in reverse mode: `fwd(*args) -> (result, residuals)`, `bwd(residuals, cotangent) ->
        cotangents`, as `tj.custom_vjp` has it.

        >>> import numpy as np, tracejit as tj
        >>> double = tj.native({"cpu": "fadd {type} {0}, {0}"})
        >>> double.defvjp(lambda x: (double(x), None), lambda _, g: (2 * g,))
        >>> tj.jit(tj.grad(lambda x: np.sum(double(x) ** 2)))(np.array([1.0, 3.0]))
        array([ 8., 24.])
        """
        rule = custom_vjp(self._plain)
        rule.defvjp(fwd, bwd)
        self._rule = rule


def _is_mapping(x: Any) -> bool:
    """Whether it is a dict, or like one, that holds something."""
    return isinstance(x, Mapping) and bool(x)


def _arity(source: Any) -> int:
    """How many operands a source has; 0 for what is none."""
    if isinstance(source, np.ufunc):
        return source.nin
    if callable(source):
        try:
            taken = inspect.signature(source).parameters.values()
        except ValueError:  # a built-in function that does not tell
            return 0
        return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in taken)
    try:
        fields = [field for _, field, _, _ in Formatter().parse(str(source)) if field]
    except ValueError:
        return 0
    return max([int(f) + 1 for f in fields if f.isdecimal()], default=0)


def _operation(sources: Mapping[str, Spelling], arity: int) -> str:
    """The scalar operation that backends spell so."""
    key = tuple(sorted(sources.items(), key=lambda item: item[0]))
    if key not in _OPS:
        name = f"native{len(_OPS)}"
        reference: Any = sources.get("reference")
        register_scalar_op(name, reference, arity=arity)
        for backend, source in sources.items():
            register_intrinsic(name, source, backend=backend, dtypes=_DTYPES)
        _OPS[key] = name
    assert _OPS[key] in OPS
    return _OPS[key]
