"""How scalar operations are spelled on vectors in C-family languages that have types for them.

A vector of bools is one of 32-bit integers, 0 or -1.  What has no spelling here is computed lane by lane.

Source: OpenCL C 1.2 specification, sections 6.3 (operators on vectors), 6.2.4 (reinterpretation); Clang's language
extensions (`__builtin_convertvector`).
"""

from __future__ import annotations

from tracejit.ir.scalar import BITS, is_float, is_integer

__all__ = ["spelling"]

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FLOAT = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
    "abs": "as_<V>(as_<U>({0}) & <low>)", "copysign": "as_<V>((as_<U>({0}) & <low>) | (as_<U>({1}) & ~<low>))",
    "min": "(({0} < {1}) | ({0} != {0})) ? {0} : {1}", "max": "(({0} > {1}) | ({0} != {0})) ? {0} : {1}",
    "select": "__builtin_convertvector({0}, <I>) ? {1} : {2}",
}  # fmt: skip
_INTEGER = {
    "add": "as_<V>(as_<U>({0}) + as_<U>({1}))", "sub": "as_<V>(as_<U>({0}) - as_<U>({1}))",
    "mul": "as_<V>(as_<U>({0}) * as_<U>({1}))", "neg": "as_<V>(-as_<U>({0}))", "and": "{0} & {1}", "or": "{0} | {1}",
    "xor": "{0} ^ {1}", "not": "~{0}", "min": "{0} < {1} ? {0} : {1}", "max": "{0} > {1} ? {0} : {1}",
    "shl": "as_<U>({1}) < (<U>)(<bits>) ? as_<V>(as_<U>({0}) << as_<U>({1})) : (<V>)(0)",
    "lshr": "as_<U>({1}) < (<U>)(<bits>) ? as_<V>(as_<U>({0}) >> as_<U>({1})) : (<V>)(0)",
    "select": "__builtin_convertvector({0}, <I>) ? {1} : {2}",
}  # fmt: skip
_SIGNED = {
    "abs": "{0} < (<V>)(0) ? as_<V>(-as_<U>({0})) : {0}",
    "shr": "{0} >> as_<V>(as_<U>({1}) < (<U>)(<bits>) ? as_<U>({1}) : (<U>)(<bits> - 1))",
}
_UNSIGNED = {"abs": "{0}", "shr": "{1} < (<U>)(<bits>) ? {0} >> {1} : (<V>)(0)"}
_BOOL = {
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}", "add": "{0} | {1}", "mul": "{0} & {1}",
    "min": "{0} & {1}", "max": "{0} | {1}", "abs": "{0}", "select": "{0} ? {1} : {2}", "eq": "~({0} ^ {1})",
    "ne": "{0} ^ {1}", "lt": "~{0} & {1}", "le": "~{0} | {1}", "gt": "{0} & ~{1}", "ge": "{0} | ~{1}",
}  # fmt: skip


def spelling(op: str, source: str, target: str, width: int, vectors: dict[str, str]) -> str | None:
    """The template of an operation on vectors of `source`, which gives one of `target`; None where it has none.

    vectors: the type of a vector of so many elements of each dtype.
    """
    if op in ("convert", "bitcast"):
        return _conversion(op, source, target, vectors)
    if source == "bool" or (op == "select" and target == "bool"):
        return _BOOL.get(op)
    if op in _COMPARISONS:
        return f"__builtin_convertvector({{0}} {_COMPARISONS[op]} {{1}}, {vectors['bool']})"
    if is_float(source):
        template = _FLOAT.get(op)
    else:
        template = (_INTEGER | (_SIGNED if source[0] == "i" else _UNSIGNED)).get(op)
    if template is None:
        return None
    bits = BITS[source]
    low = "0x7fffffffffffffffUL" if bits == 64 else "0x7fffffffu"
    words = {"V": vectors[source], "U": vectors[f"u{bits}"], "I": vectors[f"i{bits}"], "low": low, "bits": str(bits)}
    for key, word in words.items():
        template = template.replace(f"<{key}>", word)
    return template


def _conversion(op: str, source: str, target: str, vectors: dict[str, str]) -> str | None:
    if source == target:
        return "{0}"
    if op == "bitcast":
        return None if "bool" in (source, target) else f"as_{vectors[target]}({{0}})"
    if source == "bool":
        return f"__builtin_convertvector({{0}} & 1, {vectors[target]})"
    if target == "bool":
        return f"__builtin_convertvector({{0}} != ({vectors[source]})(0), {vectors['bool']})"
    if is_float(source) and is_integer(target):
        return None  # what is out of range has an answer
    return f"__builtin_convertvector({{0}}, {vectors[target]})"
