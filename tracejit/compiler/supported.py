"""What a target lacks is refused before code is made for it: the one place that asks."""

from __future__ import annotations

from collections.abc import Iterable

from tracejit.backends.base import Target
from tracejit.ir.kernel import Kernel, Op, walk
from tracejit.ir.passes.groups import FormEquation
from tracejit.ir.scalar import is_complex, part_dtype
from tracejit.support.errors import UnsupportedError

__all__ = ["check_supported"]


def check_supported(kernel: Kernel, equations: Iterable[FormEquation], target: Target) -> None:
    """Raises: UnsupportedError for an operation, or a dtype, that the target lacks.

    equations: what the kernel computes.
    """
    if not target.lacks:
        return
    for s in walk(kernel.body):
        if isinstance(s, Op):
            for dtype in dict.fromkeys((*(a.dtype for a in s.args), s.out.dtype)):
                why = target.reason(s.op, part_dtype(dtype) if is_complex(dtype) else dtype)
                if why:
                    error = UnsupportedError(
                        f"{s.op} of {dtype} on the {target.name} backend: {why}", location=s.location
                    )
                    raise error.about(backend=target.name, primitive=s.op)
    first = next(iter(equations), None)
    for b in kernel.buffers:
        why = target.reason("", part_dtype(b.dtype) if is_complex(b.dtype) else b.dtype)
        if why:
            error = UnsupportedError(
                f"an array of {b.dtype} on the {target.name} backend: {why}", location=first and first.location
            )
            raise error.about(backend=target.name, primitive=first.name if first else "")
