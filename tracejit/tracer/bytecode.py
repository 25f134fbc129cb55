"""Reading CPython's bytecode: `dis` without what it makes for people to read, for functions of thousands of lines.

Source: the documentation of CPython's `dis` module, 3.11 to 3.14: two bytes an instruction, inline caches are
instructions of opcode 0.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Iterator
from dis import findlabels, get_instructions
from functools import cache
from types import CodeType, FrameType
from typing import Any

__all__ = [
    "GIVE_TEXT", "asks_for_booleans", "bound_first", "carried_names", "catches_at", "decides", "essence",
    "instructions", "iterates_directly", "loads_attribute", "name_of", "raises", "stored_attributes", "target_of",
    "yields_within",
]  # fmt: skip

_NAMES = tuple(opcode.opname)
_EXTENDED = opcode.opmap["EXTENDED_ARG"]
_LEAVES = frozenset({
    "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "RAISE_VARARGS", "RERAISE",
    "RETURN_CONST", "RETURN_VALUE",
})  # fmt: skip
"""Instructions that the next one does not follow."""
_ATTRIBUTES_TELL_CALLS = sys.version_info >= (3, 12)
_SEES_LOCALS = frozenset({"_getframe", "currentframe", "dir", "eval", "exec", "locals", "vars"})


def instructions(code: CodeType) -> Iterator[tuple[str, int, int]]:
    """(name, argument, offset) of every instruction, without caches and prefixes.

    >>> [name for name, _, _ in instructions((lambda x: abs(x)).__code__) if name.startswith("LOAD_GLOBAL")]
    ['LOAD_GLOBAL']
    """
    raw = code.co_code
    prefix = 0
    offset = -2
    for op, argument in zip(raw[::2], raw[1::2], strict=True):
        offset += 2
        if op == _EXTENDED:
            prefix = (prefix | argument) << 8
        elif op:
            yield _NAMES[op], prefix | argument, offset
            prefix = 0


def name_of(code: CodeType, instruction: str, argument: int) -> str:
    """The name that an instruction loads or stores."""
    if instruction == "LOAD_GLOBAL":
        return code.co_names[argument >> 1]  # the low bit asks for a null beside the value
    if instruction.endswith("_DEREF"):
        return _variables(code)[argument]
    return code.co_names[argument]


def _variables(code: CodeType) -> tuple[str, ...]:
    """Local, cell and free variables in the order of their slots: a cell that is an argument has the argument's."""
    return code.co_varnames + tuple(n for n in code.co_cellvars if n not in code.co_varnames) + code.co_freevars


_RESUMED = 0x20 | 0x80 | 0x200  # generators and coroutines, whose tables are never empty


@cache
def swallows(code: CodeType) -> bool:
    """Whether code may end an exception of any class: by a bare `except`, one of BaseException, or a jump in a
    `finally`.
    """
    if "BaseException" in code.co_names and catches(code):
        return True
    targets = {target for _, _, target in _handlers(code)}
    inside = False
    before = ""
    for name, _, offset in instructions(code):
        if offset in targets:
            inside, before = name == "PUSH_EXC_INFO", ""
            continue
        if inside:
            if (not before and name == "POP_TOP") or name in ("RETURN_VALUE", "RETURN_CONST"):
                return True
            if name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "WITH_EXCEPT_START"):
                inside = False
            if name == "POP_EXCEPT":  # what is raised on goes there by a copy
                if before != "COPY":
                    return True
                inside = False
        before = name
    return False


_PLAIN_INDICES = ("LOAD_CONST", "LOAD_SMALL_INT", "BUILD_SLICE", "BUILD_TUPLE")
_OPERATIONS: Any = getattr(opcode, "_nb_ops", ())
_SUBSCRIPTS = frozenset(n for n, (name, _) in enumerate(_OPERATIONS) if name == "NB_SUBSCR")
"""What `BINARY_OP` has as its argument where it takes an item, from Python 3.14 on."""
_REMAINDERS = frozenset(n for n, (name, _) in enumerate(_OPERATIONS) if name == "NB_REMAINDER")
_COMPARED = 0 if sys.version_info < (3, 12) else 4 if sys.version_info < (3, 13) else 5
"""Bits before the number of a comparison in what `COMPARE_OP` has as its argument."""
GIVE_TEXT = frozenset({"__format__", "__repr__", "__str__"})
"""Methods that Python asks for text."""
_MAKE_TEXT = frozenset({"format", "join"})


@cache
def decides(code: CodeType) -> bool:
    """Whether code, or code within it, has jumps (loops, branches, conditional expressions), a `try`, asks `x is y`,
    `x in y`, `not x`, or for the least or greatest by a key, takes an item at an index that is no constant, asks
    whether things are equal, compares tuples or lists, or may make text.

    >>> decides((lambda x: x + 1).__code__), decides((lambda x: x and 1).__code__)
    (False, True)
    """
    asks = (
        "FOR_ITER",
        "IS_OP",
        "CONTAINS_OP",
        "UNARY_NOT",
        "BUILD_STRING",
        "FORMAT_VALUE",
        "FORMAT_SIMPLE",
        "FORMAT_WITH_SPEC",
    )
    if code.co_name in GIVE_TEXT or not _MAKE_TEXT.isdisjoint(code.co_names):
        return True
    if not {"min", "max"}.isdisjoint(code.co_names) and any("key" in x for x in code.co_consts if type(x) is tuple):
        return True
    if code.co_exceptiontable and not code.co_flags & _RESUMED:
        return True
    if code.co_exceptiontable and (catches(code) or any(n == "WITH_EXCEPT_START" for n, _, _ in instructions(code))):
        return True
    names = {name for name, _, _ in instructions(code)}
    if "COMPARE_OP" in names and not names.isdisjoint(("BUILD_TUPLE", "BUILD_LIST")):
        return True
    before = ""
    for name, argument, _ in instructions(code):
        if name == "COMPARE_OP" and opcode.cmp_op[argument >> _COMPARED] in ("==", "!="):  # of tuples, or with None
            return True
        takes = name == "BINARY_SUBSCR" or (name == "BINARY_OP" and argument in _SUBSCRIPTS)
        formats = name == "BINARY_OP" and argument in _REMAINDERS
        if "JUMP" in name or name in asks or formats or (takes and before not in _PLAIN_INDICES):
            return True
        before = name
    return any(decides(x) for x in code.co_consts if isinstance(x, CodeType))


def essence(code: CodeType) -> list[tuple[str, int]]:
    """What code does, without what depends on the module around it: the compiler calls `np.exp` in another way where it
    has seen `import numpy as np`.  How far jumps go depends on that.

    Source: CPython's `maybe_optimize_method_call` in Python/compile.c.
    """
    found: list[tuple[str, int]] = []
    for name, argument, _ in instructions(code):
        if name == "LOAD_GLOBAL" or (name == "LOAD_ATTR" and _ATTRIBUTES_TELL_CALLS):
            argument >>= 1  # the low bit asks for a null beside the value
        elif "JUMP" in name or name in ("FOR_ITER", "SEND"):
            argument = 0
        if name != "PUSH_NULL":
            found.append(("LOAD_ATTR" if name == "LOAD_METHOD" else name, argument))
    return found


@cache
def asks_for_booleans(code: CodeType) -> bool:
    """Whether code, or code within it, says `x is True` or `x is False`.

    >>> asks_for_booleans((lambda x: x is True).__code__), asks_for_booleans((lambda x: x is None).__code__)
    (True, False)
    """
    before = ("", 0)
    for name, argument, _ in instructions(code):
        if name == "IS_OP" and before[0] == "LOAD_CONST" and isinstance(code.co_consts[before[1]], bool):
            return True
        before = name, argument
    return any(asks_for_booleans(x) for x in code.co_consts if isinstance(x, CodeType))


@cache
def stored_attributes(code: CodeType) -> frozenset[str]:
    """The attributes that code, or code within it, sets or deletes.

    >>> def f(a):
    ...     a.b = a.c
    >>> stored_attributes(f.__code__)
    frozenset({'b'})
    """
    found = {name_of(code, op, n) for op, n, _ in instructions(code) if op in ("STORE_ATTR", "DELETE_ATTR")}
    return frozenset(found.union(*[stored_attributes(x) for x in code.co_consts if isinstance(x, CodeType)]))


def carried_names(code: CodeType, place: int) -> set[str]:
    """The names that the body of the `for` at this offset reads before it binds them:
    each iteration sees those of the one before.

    place: of the instruction or, as Python 3.12 tells it, of the cache behind it.

    >>> import dis
    >>> def f(n):
    ...     k = 0
    ...     for i in range(n):
    ...         j = k
    ...         k = j + i
    >>> place = next(i.offset for i in dis.get_instructions(f) if i.opname == "FOR_ITER")
    >>> sorted(carried_names(f.__code__, place))
    ['k']
    """
    import dis  # only for loops that bind a name anew

    first: dict[str, bool] = {}  # name -> whether its first use is a load
    end = place
    for i in dis.get_instructions(code):
        if i.opname == "FOR_ITER" and i.offset <= place < i.argval:
            end, first = i.argval, {}  # of nested ones the last
        if not place < i.offset < end:
            continue
        uses = [part for part in i.opname.split("_") if part in ("LOAD", "STORE")]
        names = i.argval if isinstance(i.argval, tuple) else (i.argval,)  # two in one instruction since Python 3.13
        if uses and i.opname != "LOAD_FAST_AND_CLEAR" and i.opname.split("_")[1] in ("FAST", "DEREF", "NAME"):
            for use, name in zip(uses, names, strict=False):
                first.setdefault(name, use == "LOAD")
    return {name for name, load in first.items() if load}


def bound_first(code: CodeType, place: int) -> set[str]:
    """The local variables that the body of the `for` at this offset binds, and on no way reads before it does.

    None in code that handles exceptions, whose ways are not followed, or that may ask for all its variables.

    >>> import dis
    >>> def f(n, k, flag):
    ...     for i in range(n):
    ...         if flag:
    ...             k = i
    ...         j = k
    >>> place = next(i.offset for i in dis.get_instructions(f) if i.opname == "FOR_ITER")
    >>> sorted(bound_first(f.__code__, place))
    ['i', 'j']
    """
    import dis  # only for loops that bind a name anew

    if code.co_exceptiontable or not _SEES_LOCALS.isdisjoint(code.co_names):
        return set()
    listed = list(dis.get_instructions(code))
    heads = [n for n, i in enumerate(listed) if i.opname == "FOR_ITER" and i.offset <= place < i.argval]
    if not heads:
        return set()
    first, end = listed[heads[-1]].offset, listed[heads[-1]].argval
    numbers = {i.offset: n for n, i in enumerate(listed)}
    bound: set[str] = set()
    read: set[str] = set()
    # What is surely bound where a way arrives; a way is followed again where it arrives with less.
    known: dict[int, frozenset[str]] = {}
    ways = [(heads[-1] + 1, frozenset[str]())]
    while ways:
        n, have = ways.pop()
        while n < len(listed) and first < listed[n].offset < end:
            before = known.get(n)
            if before is not None and before <= have:
                break
            have = known[n] = have if before is None else have & before
            i = listed[n]
            uses = [part for part in i.opname.split("_") if part in ("LOAD", "STORE", "DELETE")]
            names = i.argval if isinstance(i.argval, tuple) else (i.argval,)  # two in one instruction since Python 3.13
            if len(i.opname.split("_")) > 1 and i.opname.split("_")[1] in ("FAST", "DEREF", "NAME"):
                for use, name in zip(uses, names, strict=False):
                    if use == "STORE":
                        bound.add(name)
                        have |= {name}
                    elif name not in have:
                        read.add(name)
            if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs:
                target: Any = i.argval
                ways.append((numbers[target], have))
            if i.opname in _LEAVES:
                break
            n += 1
    return {n for n in bound - read if n in code.co_varnames and n not in code.co_cellvars}


def target_of(code: CodeType, place: int) -> str | None:
    """The name that the `for` at this offset binds, None if it is no local variable.

    >>> import dis
    >>> def f(n):
    ...     for i in range(n):
    ...         print(i)
    >>> target_of(f.__code__, next(i.offset for i in dis.get_instructions(f) if i.opname == "FOR_ITER"))
    'i'
    """
    for name, argument, offset in instructions(code):
        if offset <= place or name == "FOR_ITER":
            continue
        if name == "STORE_FAST":
            return _variables(code)[argument]
        if name.startswith("STORE_FAST_"):  # two in one instruction since Python 3.13: the first one in the high half
            return _variables(code)[argument >> 4]
        return name_of(code, name, argument) if name in ("STORE_DEREF", "STORE_NAME") else None
    return None


def iterates_directly(frame: FrameType) -> bool:
    """Whether a frame asks for an iterator in the head of a `for`, and not in a call of zip or enumerate."""
    return _NAMES[frame.f_code.co_code[frame.f_lasti]] == "GET_ITER"


def loads_attribute(code: CodeType, place: int) -> bool:
    """Whether the instruction at this offset is `x.name`, and not a call of `getattr` or `hasattr`.

    place: of the instruction, or of one of the caches behind it.
    """
    raw = code.co_code
    while place > 0 and not raw[place]:
        place -= 2
    return _NAMES[raw[place]] in ("LOAD_ATTR", "LOAD_METHOD")


def raises(code: CodeType, place: int) -> bool:
    """Whether the instruction at this offset is a `raise` or an `assert`."""
    return _NAMES[code.co_code[place]] in ("RAISE_VARARGS", "RERAISE")


def catches_at(code: CodeType, place: int) -> bool:
    """Whether an exception that comes from the instruction at this offset may meet an `except` in the same function.

    Source: Objects/exception_handling_notes.txt and Lib/dis.py of CPython.
    """
    table = _handlers(code)
    seen: set[int] = set()
    while True:
        place = next((target for start, end, target in table if start <= place < end), -1)
        if place < 0 or place in seen:
            return False
        if _is_except(code, place):
            return True
        seen.add(place)  # of a `with` or a `finally`, which hands it on


def catches(code: CodeType) -> bool:
    """Whether code has an `except`."""
    return any(_is_except(code, target) for _, _, target in _handlers(code))


@cache
def catches_all(code: CodeType) -> bool:
    """Whether code has a bare `except`, alone or behind others."""
    names = {i.offset: i.opname for i in get_instructions(code)}
    targets = {target for _, _, target in _handlers(code)}
    before, place = "", -1
    for i in get_instructions(code):
        first = before == "PUSH_EXC_INFO" and place in targets and i.opname == "POP_TOP"
        if first or (before == "CHECK_EXC_MATCH" and names.get(i.argval) == "POP_TOP"):
            return True
        before, place = i.opname, i.offset
    return False


def gives_nothing(code: CodeType) -> bool:
    """Whether a function gives None or False wherever it returns.

    >>> gives_nothing((lambda: None).__code__), gives_nothing((lambda x: x).__code__)
    (True, False)
    >>> gives_nothing((lambda x: True if x else False).__code__)
    False
    """
    before: Any = True
    raw: Any = code.co_code
    met = set(findlabels(raw))  # where jumps lead, with other values
    for name, argument, offset in instructions(code):
        constant = code.co_consts[argument] if name in ("LOAD_CONST", "RETURN_CONST") else True
        if (name == "RETURN_VALUE" and (before or offset in met)) or (name == "RETURN_CONST" and constant):
            return False
        before = constant
    return True


def _is_except(code: CodeType, place: int) -> bool:
    """Whether the handler at this offset chooses by the exception's class, takes all, or is a `finally` that leaves."""
    before = ""
    for name, _, offset in instructions(code):
        if offset == place and name != "PUSH_EXC_INFO":
            before = name
        if offset <= place:
            continue
        if name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "RETURN_VALUE", "RETURN_CONST"):
            return True
        if name == "POP_EXCEPT" or (not before and name == "POP_TOP"):
            return before != "COPY"  # by which an exception goes on that nothing ends
        if name in ("WITH_EXCEPT_START", "PUSH_EXC_INFO"):
            return False
        before = name
    return False


@cache
def _handlers(code: CodeType) -> list[tuple[int, int, int]]:
    """(first offset, offset behind the last, that of the handler), inner ones first."""
    parts = iter(code.co_exceptiontable)

    def number() -> int:
        byte = next(parts)
        value = byte & 63
        while byte & 64:
            byte = next(parts)
            value = value << 6 | byte & 63
        return value

    found: list[tuple[int, int, int]] = []
    while True:
        try:
            start = 2 * number()
        except StopIteration:
            return found
        end, target = start + 2 * number(), 2 * number()
        number()
        found.append((start, end, target))


def yields_within(code: CodeType, place: int) -> bool:
    """Whether the body of the `for` at this offset is in a generator and yields there.

    >>> (x for x in ()).gi_code.co_flags & GENERATOR > 0
    True
    """
    if not code.co_flags & GENERATOR:
        return False
    import dis

    end = place
    for i in dis.get_instructions(code):
        if i.opname == "FOR_ITER" and i.offset <= place < i.argval:
            end = i.argval
        if place < i.offset < end and i.opname in ("YIELD_VALUE", "SEND"):
            return True
    return False


GENERATOR = 0x20 | 0x80 | 0x200  # a generator, a coroutine, an asynchronous generator
