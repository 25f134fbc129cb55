"""How C-family targets spell the scalar operations of `ir.scalar`, total as that table says.

`scalar_intrinsics(dialect)` builds the table that `c_like` reads; users and targets add to it or replace entries.  f16
lives in f32 registers and is rounded after each operation that can be inexact; bool is a byte in memory.

Source: C99 6.3 and 6.5 for what is undefined and must be avoided; IEEE 754-2019 for the half-precision conversions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from tracejit.ir.scalar import BITS, DTYPES, OPS, is_float, is_integer
from tracejit.support.errors import UnsupportedError, UserError
from tracejit.support.members import Member
from tracejit.support.nodes import as_dict, frozen

__all__ = ["Dialect", "Helper", "Intrinsic", "Intrinsics", "scalar_intrinsics"]


@frozen
class Dialect:
    """The words in which C-family languages differ.

    backend: whose users' spellings are printed.  types: register type of each kernel dtype (f16 is kept in a float).
    storage: type in memory.  bitcast: template over {source}, {type} and {0}; literal braces are doubled.  spaces:
    address-space qualifiers, by the word of a space: templates over what it carries.  correct_divide: `/` and sqrt on
    f32 are correctly rounded; where they are not, divide_through_f64 says that f64 may be used to make them so.
    group_guard: full groups run without a test in each work-item (compilers for processors vectorize those only), at
    the price of printing the body twice.  lanes: vector loops are printed with the types of `vector`, whose operators
    and builtins are Clang's.
    """

    name: str
    backend: str
    types: Mapping[str, str]
    storage: Mapping[str, str]
    suffixes: Mapping[str, str]
    spaces: Mapping[str, str]
    function_prefix: str
    kernel_prefix: str
    bitcast: str
    header: str = ""
    unroll: str = ""
    correct_divide: bool = True
    divide_through_f64: bool = False
    group_guard: bool = False
    vector: str = ""
    group: str = ""
    lanes: bool = False

    def space(self, space: Member) -> str:
        """The qualifier of a memory space.   Raises: UnsupportedError where there is none."""
        found = self.spaces.get(space.word)
        if found is None:
            raise UnsupportedError(f"{self.name} has no {space} memory here; there are {', '.join(self.spaces)}")
        return found if space.value is None else found.format(**as_dict(space.value))


@frozen
class Helper:
    """A function that spellings call: its source, and the names of the helpers it calls itself."""

    source: str
    needs: tuple[str, ...] = ()


@frozen
class Intrinsic:
    """The spelling of one operation: a template over the operands {0}, {1}, ..., and the helpers it calls."""

    template: str
    needs: tuple[str, ...] = ()


@define(eq=False)
class Intrinsics:
    """The one table that code generation reads: "op.dtype", or "op" for every dtype, to a spelling.

    Conversions are "convert.from.to" and "bitcast.from.to"; atomics "atomic.op.dtype.space"; thread ids "group_id",
    "lane_id", "global_id"; "barrier".  `define` adds or replaces.
    """

    entries: dict[str, Intrinsic] = field(factory=dict[str, Intrinsic])
    helpers: dict[str, Helper] = field(factory=dict[str, Helper])

    def define(self, key: str, template: str, *needs: str) -> None:
        """Spell `key` by `template`; `needs` names the helpers it calls."""
        missing = [n for n in needs if n not in self.helpers]
        if missing:
            raise KeyError(
                f"intrinsic {key} needs the helpers {', '.join(missing)}, which are not defined; call define_helper "
                "first"
            )
        self.entries[key] = Intrinsic(template, needs)

    def define_helper(self, name: str, source: str, *needs: str) -> None:
        """Make `source`, a function definition, available to spellings under `name`."""
        self.helpers[name] = Helper(source, needs)

    def find(self, *keys: str) -> Intrinsic | None:
        """The entry of the first key that has one."""
        for key in keys:
            entry = self.entries.get(key)
            if entry is not None:
                return entry
        return None

    def copy(self) -> Intrinsics:
        """A table to extend without changing this one."""
        return Intrinsics(dict(self.entries), dict(self.helpers))

    def extended(self, own: Mapping[str, Any]) -> Intrinsics:
        """This table with the spellings users registered for the target.

        Raises: UserError for one that is no template.
        """
        if not own:
            return self
        table = self.copy()
        for key, template in own.items():
            if not isinstance(template, str):
                raise UserError(f"the spelling of {key} is a template of a C expression, not {template!r}")
            table.define(key, template)
        return table

    def closure(self, names: Iterable[str]) -> list[str]:
        """`names` and all they need, callees first."""
        order: list[str] = []
        stack = [(name, False) for name in reversed(list(names))]
        while stack:
            name, ready = stack.pop()
            if name in order:
                continue
            if ready:
                order.append(name)
                continue
            stack.append((name, True))
            stack += [(n, False) for n in reversed(self.helpers[name].needs)]
        return order


def scalar_intrinsics(d: Dialect) -> Intrinsics:
    """The total spellings of every operation that is not a mathematical function."""
    table = Intrinsics()
    _half_helpers(table, d)
    for dtype in DTYPES:
        if is_integer(dtype):
            _integer(table, d, dtype)
        elif is_float(dtype):
            _float(table, d, dtype)
        for op, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
            table.define(f"{op}.{dtype}", f"{{0}} {sign} {{1}}")
        table.define(f"select.{dtype}", "{0} ? {1} : {2}")
    _boolean(table)
    for source in DTYPES:
        for target in DTYPES:
            _convert(table, d, source, target)
    _bitcasts(table, d)
    return table


def _words(d: Dialect, dtype: str) -> dict[str, str]:
    """The names that templates of one dtype use.

    W is the unsigned type arithmetic runs in: C promotes narrow types to a signed int, whose overflow is undefined.
    """
    bits = BITS[dtype]
    wide = "u64" if bits == 64 else "u32"
    return {
        "T": d.types[dtype],
        "U": d.types[f"u{bits}"],
        "W": d.types[wide],
        "W0": "0" + d.suffixes[wide],
        "bits": str(bits),
        "last": str(bits - 1),
        "C": d.types["u32"],
        "name": dtype,
        "fn": d.function_prefix,
    }


def _fill(template: str, words: Mapping[str, str]) -> str:
    """Replace <X> by words["X"]; braces stay for the operands."""
    for key, word in words.items():
        template = template.replace(f"<{key}>", word)
    return template


_INTEGER = {
    "add": "(<T>)((<W>){0} + (<W>){1})",
    "sub": "(<T>)((<W>){0} - (<W>){1})",
    "mul": "(<T>)((<W>){0} * (<W>){1})",
    "neg": "(<T>)(<W0> - (<W>){0})",
    "and": "(<T>)({0} & {1})",
    "or": "(<T>)({0} | {1})",
    "xor": "(<T>)({0} ^ {1})",
    "not": "(<T>)(~{0})",
    "min": "{0} < {1} ? {0} : {1}",
    "max": "{0} > {1} ? {0} : {1}",
    "shl": "(<U>){1} < <bits>u ? (<T>)((<W>){0} << (<C>){1}) : (<T>)0",
    "lshr": "(<U>){1} < <bits>u ? (<T>)((<U>){0} >> (<C>){1}) : (<T>)0",
    "shl_safe": "(<T>)((<W>){0} << {1})",
    "shr_safe": "(<T>)({0} >> {1})",
    "lshr_safe": "(<T>)((<U>){0} >> {1})",
    "idiv_safe": "(<T>)({0} / {1})",
    "irem_safe": "(<T>)({0} % {1})",
}
_SIGNED = {
    "abs": "{0} < 0 ? (<T>)(<W0> - (<W>){0}) : {0}",
    "shr": "(<T>)({0} >> ((<U>){1} < <bits>u ? (<C>){1} : <last>u))",
}
_UNSIGNED = {
    "abs": "{0}",
    "shr": "(<U>){1} < <bits>u ? (<T>)({0} >> (<C>){1}) : (<T>)0",
}
_DIVISION = {
    "i": (
        "<fn> <T> tj_idiv_<name>(<T> x, <T> y) {\n  return y == 0 ? (<T>)0 : y == -1 ? (<T>)(<W0> - (<W>)x) : (<T>)(x "
        "/ y);\n}",
        "<fn> <T> tj_irem_<name>(<T> x, <T> y) {\n  return y == 0 || y == -1 ? (<T>)0 : (<T>)(x % y);\n}",
    ),
    "u": (
        "<fn> <T> tj_idiv_<name>(<T> x, <T> y) {\n  return y == 0 ? (<T>)0 : (<T>)(x / y);\n}",
        "<fn> <T> tj_irem_<name>(<T> x, <T> y) {\n  return y == 0 ? (<T>)0 : (<T>)(x % y);\n}",
    ),
}


def _integer(table: Intrinsics, d: Dialect, dtype: str) -> None:
    words = _words(d, dtype)
    for op, template in (_INTEGER | (_SIGNED if dtype[0] == "i" else _UNSIGNED)).items():
        table.define(f"{op}.{dtype}", _fill(template, words))
    for op, source in zip(("idiv", "irem"), _DIVISION[dtype[0]], strict=True):
        table.define_helper(f"tj_{op}_{dtype}", _fill(source, words))
        table.define(f"{op}.{dtype}", f"tj_{op}_{dtype}({{0}}, {{1}})", f"tj_{op}_{dtype}")


def _boolean(table: Intrinsics) -> None:
    """NumPy's bool arithmetic: + and max are or, * and min are and; there is no bool subtraction."""
    for op, template in {
        "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} != {1}", "not": "!{0}", "add": "{0} | {1}",
        "mul": "{0} & {1}", "min": "{0} & {1}", "max": "{0} | {1}", "abs": "{0}",
    }.items():  # fmt: skip
        table.define(f"{op}.bool", template)


_FLOAT = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "abs": "fabs({0})",
    "sqrt": "sqrt({0})", "floor": "floor({0})", "ceil": "ceil({0})", "trunc": "trunc({0})", "roundeven": "rint({0})",
    "copysign": "copysign({0}, {1})", "min": "(({0} < {1}) | ({0} != {0})) ? {0} : {1}",
    "max": "(({0} > {1}) | ({0} != {0})) ? {0} : {1}", "fma": "fma({0}, {1}, {2})",
}  # fmt: skip


def _float(table: Intrinsics, d: Dialect, dtype: str) -> None:
    spellings = dict(_FLOAT)
    if dtype != "f64" and not d.correct_divide and d.divide_through_f64:
        # The quotient and the root of f32 operands, computed in f64 and rounded again, are correctly rounded (53 >=
        # 2*24 + 2).
        spellings["div"] = f"({d.types['f32']})(({d.types['f64']}){{0}} / ({d.types['f64']}){{1}})"
        spellings["sqrt"] = f"({d.types['f32']})sqrt(({d.types['f64']}){{0}})"
    for op, template in spellings.items():
        if dtype != "f16":
            table.define(f"{op}.{dtype}", template)
        elif op == "fma":
            table.define("fma.f16", "tj_fma_f16({0}, {1}, {2})", "tj_fma_f16")
        elif OPS[op].rounds:
            table.define(f"{op}.f16", f"tj_round_f16({template})", "tj_round_f16")
        else:
            table.define(f"{op}.f16", template)


_HALF = {
    "tj_as_f32": "<fn> <f32> tj_as_f32(<u32> x) {\n  return <cast_f32>;\n}",
    "tj_as_u32": "<fn> <u32> tj_as_u32(<f32> x) {\n  return <cast_u32>;\n}",
    "tj_f16_load": """<fn> <f32> tj_f16_load(<u16> h) {
  const <u32> s = (<u32>)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
  if (e == 31) return tj_as_f32(s | 0x7f800000u | m << 13);
  if (e == 0) return tj_as_f32(s | tj_as_u32((<f32>)m * 0x1p-24f));
  return tj_as_f32(s | (e + 112) << 23 | m << 13);
}""",
    "tj_f16_store": """<fn> <u16> tj_f16_store(<f32> x) {
  const <u32> b = tj_as_u32(x), s = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return (<u16>)(s | 0x7c00u | (a >> 13 & 1023u) | ((a >> 13 & 1023u) == 0));
  if (a >= 0x477ff000u) return (<u16>)(s | 0x7c00u);
  if (a < 0x38800000u) return (<u16>)(s | (<u32>)rint(tj_as_f32(a) * 0x1p24f));
  return (<u16>)(s | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
}""",
    "tj_round_f16": "<fn> <f32> tj_round_f16(<f32> x) {\n  return tj_f16_load(tj_f16_store(x));\n}",
    # Rounded to odd, so that a further rounding to f16 is right (Boldo and Melquiond 2008); the same in tj_fma_f16,
    # whose product is exact.
    "tj_odd_f32": """<fn> <f32> tj_odd_f32(<f64> x) {
  const <f32> r = (<f32>)x;
  const <u32> b = tj_as_u32(r);
  if ((<f64>)r == x || x != x || (b & 1)) return r;
  return tj_as_f32(fabs((<f64>)r) > fabs(x) ? b - 1 : b + 1);
}""",
    "tj_fma_f16": """<fn> <f32> tj_fma_f16(<f32> x, <f32> y, <f32> z) {
  const <f32> p = x * y, s = p + z, t = s - p, e = (p - (s - t)) + (z - t);
  const <u32> b = tj_as_u32(s);
  if (e == 0 || e != e || (b & 1)) return tj_round_f16(s);
  return tj_round_f16(tj_as_f32((e > 0) == (s > 0) ? b + 1 : b - 1));
}""",
}
_HALF_NEEDS = {
    "tj_f16_load": ("tj_as_f32", "tj_as_u32"),
    "tj_f16_store": ("tj_as_f32", "tj_as_u32"),
    "tj_round_f16": ("tj_f16_load", "tj_f16_store"),
    "tj_odd_f32": ("tj_as_f32", "tj_as_u32"),
    "tj_fma_f16": ("tj_as_f32", "tj_as_u32", "tj_round_f16"),
}


def _cast_bits(d: Dialect, source: str, target: str, operand: str) -> str:
    return d.bitcast.format(operand, type=d.types[target], source=d.types[source])


def _escaped(text: str) -> str:
    """A text as a template of itself."""
    return text.replace("{", "{{").replace("}", "}}")


def _half_helpers(table: Intrinsics, d: Dialect) -> None:
    words = {dtype: d.types[dtype] for dtype in ("u16", "u32", "f32", "f64")} | {"fn": d.function_prefix}
    words |= {"cast_f32": _cast_bits(d, "u32", "f32", "x"), "cast_u32": _cast_bits(d, "f32", "u32", "x")}
    for name, source in _HALF.items():
        table.define_helper(name, _fill(source, words), *_HALF_NEEDS.get(name, ()))
    table.define("load.f16", "tj_f16_load({0})", "tj_f16_load")
    table.define("store.f16", "tj_f16_store({0})", "tj_f16_store")


def _convert(table: Intrinsics, d: Dialect, source: str, target: str) -> None:
    key, T = f"convert.{source}.{target}", d.types[target]
    if source == target:
        table.define(key, "{0}")
    elif target == "bool":
        table.define(key, "{0} != 0")
    elif is_float(source) and not is_float(target):
        name = f"tj_{source}_to_{target}"
        table.define_helper(name, _float_to_integer(d, source, target))
        table.define(key, f"{name}({{0}})", name)
    elif target != "f16":
        table.define(key, f"({T}){{0}}")
    elif source == "f64":
        table.define(key, "tj_round_f16(tj_odd_f32({0}))", "tj_round_f16", "tj_odd_f32")
    else:  # integers that f32 does not hold exactly are beyond f16's range
        table.define(key, f"tj_round_f16(({T}){{0}})", "tj_round_f16")


def _float_to_integer(d: Dialect, source: str, target: str) -> str:
    """A total conversion: what `ir.scalar.OPS["convert"]` says for NaN and for values out of range."""
    words = {"fn": d.function_prefix, "S": d.types[source], "T": d.types[target], "from": source, "to": target}
    words |= {
        "i32": d.types["i32"],
        "i64": d.types["i64"],
        "u64": d.types["u64"],
        "l": d.suffixes["i64"],
        "ul": d.suffixes["u64"],
    }
    f = words["f"] = "" if source == "f64" else "f"
    if target == "u64":
        body = f"""  if (x >= -0x1p63{f} && x < 0x1p63{f}) return (<u64>)(<i64>)x;
  if (x >= 0x1p63{f} && x < 0x1p64{f}) return (<u64>)(<i64>)(x - 0x1p63{f}) + 0x8000000000000000<ul>;
  return x >= 0x1p64{f} ? 0 : 0x8000000000000000<ul>;"""
    elif target in ("i64", "u32"):
        body = f"  return (<T>)(x >= -0x1p63{f} && x < 0x1p63{f} ? (<i64>)x : (<i64>)0x8000000000000000<ul>);"
    else:
        low = "x > -2147483649.0" if source == "f64" else "x >= -0x1p31f"
        body = f"  return (<T>)({low} && x < 0x1p31{f} ? (<i32>)x : (<i32>)0x80000000u);"
    return _fill(f"<fn> <T> tj_<from>_to_<to>(<S> x) {{\n{body}\n}}", words)


def _bitcasts(table: Intrinsics, d: Dialect) -> None:
    for source, target in ((a, b) for a in DTYPES for b in DTYPES if BITS[a] == BITS[b]):
        key = f"bitcast.{source}.{target}"
        if source == target:
            table.define(key, "{0}")
        elif target == "bool":
            table.define(key, "{0} != 0")
        elif source == "bool":
            table.define(key, f"({d.types[target]}){{0}}")
        elif target == "f16":
            table.define(key, f"tj_f16_load(({d.types['u16']}){{0}})", "tj_f16_load")
        elif source == "f16":
            table.define(key, f"({d.types[target]})tj_f16_store({{0}})", "tj_f16_store")
        elif is_float(source) or is_float(target):
            table.define(key, _escaped(_cast_bits(d, source, target, "\0")).replace("\0", "{0}"))
        else:
            table.define(key, f"({d.types[target]}){{0}}")
