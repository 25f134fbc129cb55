"""tracejit: plain NumPy functions, traced, transformed and compiled for the device at hand.

`import tracejit` loads little: a public name is imported when it is first used, the compiler when the first function is
traced.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracejit.support.collector import kept
from tracejit.support.config import config
from tracejit.tracer.interpreter import before_tracing
from tracejit.tracer.statements.calls import provided_by
from tracejit.tracer.tables import LATE

if TYPE_CHECKING:
    from tracejit import (
        debug,
        errors,
        experimental,
        flatten_util,
        image,
        lax,
        nn,
        numpy,
        ops,
        random,
        scipy,
        tree,
        tree_util,
    )
    from tracejit.api.array import Array
    from tracejit.api.autodiff import grad, jvp, linearize, value_and_grad, vjp
    from tracejit.api.callbacks import io_callback, pure_callback
    from tracejit.api.closures import closure_convert
    from tracejit.api.custom import checkpoint, custom_jvp, custom_vjp, remat
    from tracejit.api.custom_gradient import custom_gradient
    from tracejit.api.devices import device_get, device_put, devices
    from tracejit.api.differentiable import float0
    from tracejit.api.inspecting import (
        ShapeDtypeStruct,
        block_until_ready,
        eval_shape,
        linear_transpose,
        make_jaxpr,
        named_scope,
    )
    from tracejit.api.iterated import unroll
    from tracejit.api.jacobian import hessian, jacfwd, jacrev
    from tracejit.api.jit import jit
    from tracejit.api.native import native
    from tracejit.api.other_names import (
        default_backend,
        device_count,
        jacobian,
        local_device_count,
        local_devices,
        named_call,
        process_count,
        process_index,
        typeof,
    )
    from tracejit.api.placing import default_device, disable_jit
    from tracejit.api.range import range
    from tracejit.api.tune import tune
    from tracejit.api.vmap import vmap
    from tracejit.backends.intrinsics import register_intrinsic, register_scalar_op
    from tracejit.backends.registry import list_backends
    from tracejit.compiler.lower import register_lowering

__version__ = "0.1.0"

__all__ = [
    "Array", "ShapeDtypeStruct", "block_until_ready", "checkpoint", "closure_convert", "config",
    "custom_gradient", "custom_jvp", "custom_vjp", "debug", "default_backend", "default_device", "device_count",
    "device_get", "device_put", "devices", "disable_jit", "errors", "eval_shape", "experimental",
    "flatten_util", "float0", "grad", "hessian", "image", "io_callback", "jacfwd", "jacobian", "jacrev", "jit",
    "jvp", "lax", "linear_transpose", "linearize", "list_backends", "local_device_count", "local_devices",
    "make_jaxpr", "named_call", "named_scope", "native", "nn", "numpy", "ops", "process_count", "process_index",
    "pure_callback", "random", "range", "register_intrinsic", "register_lowering", "register_scalar_op",
    "remat", "scipy", "tree", "tree_util", "tune", "typeof", "unroll", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

_MODULES = (
    "debug", "errors", "experimental", "flatten_util", "image", "lax", "nn", "numpy", "ops", "random", "scipy", "tree",
    "tree_util",
)  # fmt: skip
_HOME = {
    **dict.fromkeys(
        ["ShapeDtypeStruct", "block_until_ready", "eval_shape", "linear_transpose", "make_jaxpr", "named_scope"],
        "api.inspecting",
    ),
    "Array": "api.array", "checkpoint": "api.custom", "custom_jvp": "api.custom", "custom_vjp": "api.custom",
    "default_device": "api.placing", "disable_jit": "api.placing",
    "device_get": "api.devices", "device_put": "api.devices", "devices": "api.devices",
    **dict.fromkeys(
        ["default_backend", "device_count", "jacobian", "local_device_count", "local_devices", "named_call",
         "process_count", "process_index", "typeof"],
        "api.other_names",
    ),
    "io_callback": "api.callbacks", "pure_callback": "api.callbacks", "closure_convert": "api.closures",
    "custom_gradient": "api.custom_gradient", "float0": "api.differentiable", "grad": "api.autodiff",
    "hessian": "api.jacobian",
    "jacfwd": "api.jacobian", "jacrev": "api.jacobian", "jit": "api.jit", "jvp": "api.autodiff",
    "linearize": "api.autodiff", "list_backends": "backends.registry", "native": "api.native", "range": "api.range",
    "register_intrinsic": "backends.intrinsics", "register_lowering": "compiler.lower", "remat": "api.custom",
    "register_scalar_op": "backends.intrinsics", "tune": "api.tune", "unroll": "api.iterated",
    "value_and_grad": "api.autodiff", "vjp": "api.autodiff", "vmap": "api.vmap",
}  # fmt: skip

# NumPy's names fill the tables that traced arrays look operators and functions up in.
before_tracing(lambda: import_module("tracejit.numpy"))
provided_by(lambda: import_module("tracejit.api.statements").STATEMENTS)
LATE["scipy.fft"] = lambda: import_module("tracejit.scipy.fft").enter()
LATE["scipy.linalg"] = lambda: import_module("tracejit.scipy.linalg").enter()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tracejit.{name}")
    home = _HOME.get(name)
    if home is None:
        from tracejit.support.not_here import reason_for  # for speed of import

        raise AttributeError(reason_for(name, "tracejit"))
    with kept():
        if name not in ("jit", "list_backends"):
            import_module("tracejit.numpy")
        found = globals()[name] = getattr(import_module(f"tracejit.{home}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
