"""Names and settings of JAX's that there are not here, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracejit.support.errors import OptionError
from tracejit.support.source import user_location

__all__ = ["NOT_HERE", "SETTINGS", "reason_for", "setting"]

_DEVICES = "a program runs on one device (backend=, tj.device_put), so nothing is shared out among several; use tj.vmap"
_AXES = "axes with names are those of tj.vmap, for lax.psum, all_gather, all_to_all and relatives"

NOT_HERE: dict[str, str] = {
    **dict.fromkeys(
        ("NamedSharding", "distributed", "make_mesh", "pmap", "reshard", "set_mesh", "shard_map", "sharding", "smap",
         "with_sharding_constraint"), _DEVICES
    ),
    **dict.fromkeys(
        ("pbroadcast", "pcast", "precv", "psend", "pvary", "ragged_all_to_all"), _AXES
    ),
    **dict.fromkeys(
        ("Ref", "empty_ref", "free_ref", "freeze", "new_ref"), "arrays are changed in place: x[i] = v, x += y"
    ),
    **dict.fromkeys(("after_all", "create_token"), "what a program calls runs in the order of the program"),
    **dict.fromkeys(
        ("rng_bit_generator", "rng_uniform"), "numbers are drawn from keys: tj.random.bits(key, shape)"
    ),
    **dict.fromkeys(
        ("explain_cache_misses", "log_compiles"), "the logger `tracejit` tells what is compiled, f.explain() why"
    ),
    **dict.fromkeys(("debug_infs", "debug_nans"), "look for them in the function: np.isnan(x).any(), tj.debug.print"),
    "effects_barrier": "tj.block_until_ready(results) waits for a program",
    "check_tracer_leaks": "leaked tracers are always errors, with the line that has made them",
    "clear_caches": "each function has its own programs, and f.clear_cache() forgets them",
    "custom_batching": "tj.vmap maps what a function is made of; kernels of your own have def_vmap (tj.native.kernel)",
    "custom_derivatives": "its functions are those of the package: tj.custom_jvp, tj.custom_vjp, tj.custom_gradient",
    "dce_sink": "what a program does not return is left out; return it, or give it to tj.debug.callback",
    "default_matmul_precision": "products are computed in the dtype of their operands, whatever precision= is",
    "dtypes": "dtypes are NumPy's; np.result_type and np.can_cast tell of them, in traced functions too",
    "ensure_compile_time_eval": "what follows from no argument is computed where Python computes it; do so before",
    "enable_x64": "dtypes are NumPy's, with 64 bits; give dtype=np.float32 where fewer are wanted",
    "ragged_dot_general": "tj.lax.ragged_dot has groups of rows; write others with tj.lax.dot_general of parts",
    **dict.fromkeys(
        ("get_scaled_dot_general_config", "scaled_dot_general"),
        "there are no floats of 8 bits; tj.lax.scaled_dot and tj.nn.scaled_matmul take scales of your own",
    ),
    "export": "programs are not stored; f.lower(...).text() shows them",
}  # fmt: skip
"""Of the package and of `lax`: the name, and what to do instead."""


def reason_for(name: str, module: str) -> str:
    """What an AttributeError says of a name.

    >>> reason_for("frobnicate", "tracejit")
    "module 'tracejit' has no attribute 'frobnicate'"
    """
    text = f"module {module!r} has no attribute {name!r}"
    why = NOT_HERE.get(name)
    return text if why is None else f"{text}: {why}"


SETTINGS: dict[str, tuple[Any, str]] = {
    "jax_check_tracer_leaks": (None, "leaked tracers are always errors"),
    "jax_debug_infs": (False, "infinities are not looked for; use np.isfinite(x).all()"),
    "jax_debug_nans": (False, "NaN is not looked for; use np.isnan(x).any()"),
    "jax_disable_jit": (False, "it holds in a block: with tj.disable_jit(): ..."),
    "jax_enable_x64": (True, "dtypes are NumPy's, with 64 bits; give dtype=np.float32 where fewer are wanted"),
    "jax_numpy_dtype_promotion": ("standard", "dtypes are promoted as NumPy does"),
    "jax_numpy_rank_promotion": ("allow", "ranks are promoted as NumPy does"),
}
"""Of JAX's settings the value that is true here (None: any), and why another one is none."""

_PLATFORMS = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda"}


def setting(name: str, value: Any, own: Sequence[str]) -> tuple[str, Any] | None:
    """What a setting of ours, or of JAX's, sets: a name among ours and its value; None where it is so already.

    Raises: OptionError for one that is not so here, or that nobody knows.

    >>> setting("jax_platforms", "cpu", []), setting("jax_enable_x64", True, [])
    (('backend', 'cpu'), None)
    """
    if name in own:
        return name, value
    if name in ("jax_platforms", "jax_platform_name") and value in _PLATFORMS:
        return "backend", _PLATFORMS[value]
    if name in SETTINGS:
        here, why = SETTINGS[name]
        if here is None or value == here:
            return None
        raise OptionError(f"tj.config: {name}={value!r} is not to be had: {why}", location=user_location())
    raise OptionError(
        f"tj.config has no setting {name!r} (or not with {value!r}); it has {', '.join([*own, *SETTINGS])}",
        location=user_location(),
    )
