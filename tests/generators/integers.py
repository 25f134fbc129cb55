"""Random arithmetic of integers at the ends of their dtypes: where numbers wrap around, what is known of them (which
comparison is decided, which index needs no check) must not be taken from numbers that do not.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np

from tests.generators.harness import Case, Statement, source

__all__ = ["integers"]

DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
ENDS = [0, 1, 2, 3, 5, 7, 63, 64, 100, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1,
        2**32, 2**47, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1]  # fmt: skip
OPERATORS = ["+", "-", "*", "//", "%", "^", "&", "|", ">>", "<<"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]
LENGTHS = [(3, 27, 28, 3), (4, 4, 9, 30), (1, 2, 26, 3), (40, 8, 41, 0)]


def integers(seed: int) -> Case:
    """The program of this seed: expressions that NumPy computes without an error for every call."""
    r = random.Random(seed)
    dtypes = [r.choice(DTYPES) for _ in range(2)]
    lengths, k = r.choice(LENGTHS), r.choice([0, 1, 3, 7, 200, 2**40])
    calls = [
        ([_array(r, dtypes[0], n), _array(r, dtypes[1], n), f"np.arange({n}.0)", str(k)], list[str]()) for n in lengths
    ]
    given = [dict(zip("abxk", (eval(text, {"np": np}) for text in texts), strict=True)) for texts, _ in calls]
    body: list[Statement] = [Statement("n = len(x)", fixed=True)]
    names: list[str] = []
    for number in range(8):
        for _ in range(20):
            made = _statements(r, f"r{number}", dtypes[0])
            if all(_runs(made, arguments) for arguments in given):
                body += made
                names.append(f"r{number}")
                break
    body.append(Statement(f"return [{', '.join(names)}]", fixed=True))
    return Case("import numpy as np", ["a", "b", "x", "k"], body, calls)


def _array(r: random.Random, dtype: str, n: int) -> str:
    limits = np.iinfo(dtype)
    ends = [e for e in [*ENDS, *[-e for e in ENDS], int(limits.max) - 1] if limits.min <= e <= limits.max]
    return f"np.array({[r.choice(ends) for _ in range(n)]}, np.{dtype})"


def _statements(r: random.Random, name: str, dtype: str) -> list[Statement]:
    """An expression of arrays, one for each element in a loop, or a counter and what it decides."""
    if r.random() < 0.2:
        return _counter(r, name)
    if r.random() < 0.7:
        return [Statement(f"{name} = {_result(r, _tree(r, r.randint(1, 4), ARRAYS))}")]
    inner = _result(r, _tree(r, r.randint(1, 3), ELEMENTS))
    start = Statement(f"{name} = np.zeros(n, np.{r.choice([dtype, 'int64', 'float64'])})")
    change = Statement(f"{name}[i] {r.choice(['=', '=', '+='])} {inner}")
    if r.random() < 0.3:
        change = Statement(f"if {_tree(r, 2, ELEMENTS)} {r.choice(COMPARISONS)} {_number(r)}:", [change])
    return [start, Statement("for i in range(n):", [change])]


def _counter(r: random.Random, name: str) -> list[Statement]:
    """A `while` up to a number, or to its square, and tests and indices that its range may decide."""
    end = r.choice(["9", "50", "n", "k", "n - 1", "2**40", "2**62", "2 * 10**18", "2**63 - 1", "-5"])
    tests = [
        r.choice(["i * i < E", "i * i <= E", "E > i * i", "not i * i >= E", "i < E", "i <= E", "i >= E", "i != E"])
    ]
    tests = [tests[0].replace("E", end), f"c < {r.choice([5, 12, 30])}"]
    if r.random() < 0.5:
        tests.append(r.choice(["x[c % n] < 5", f"{name}[0] < 30", "i < 2**33"]))
    r.shuffle(tests)
    start = r.choice(
        ["np.int64(0)", "np.int64(1)", "0", "1", "n", "np.int64(2**31) - n", "np.int64(2**63 - 2**33) + n"]
    )
    step = r.choice(["1", "np.int64(1)", "2", "np.int64(2**28)", "np.int64(2**31 - 1)", "-1", "np.int64(3)", "i"])
    inner = [
        r.choice([f"{name}[0] += i", f"{name}[i % 3] += 1", f"{name}[i // 2**62] += 1", f"{name}[1] += i * i % 7"]),
        f"if i {r.choice(COMPARISONS)} {r.choice(['0', '5', '3400000000', '4 * 10**9', 'n'])}: {name}[2] += 1",
    ]
    body = [Statement(line) for line in inner[: r.randint(1, 2)]]
    return [
        Statement(f"{name} = np.zeros(3, np.int64)"),
        Statement(f"i, c = {start}, 0", fixed=True),
        Statement(f"while {' and '.join(tests)}:", [*body, Statement(f"i += {step}"), Statement("c += 1", fixed=True)]),
        Statement(f"{name} = {name}, i, c"),
    ]


ARRAYS = [
    "a",
    "b",
    "np.arange(n)",
    "np.arange(n)",
    "n",
    "k",
    "a[::-1]",
    "b[:1]",
    "a.astype(np.int64)",
    "b.astype(np.uint64)",
]
ELEMENTS = ["a[i]", "b[i]", "i", "np.int64(i)", "n", "k", "int(a[i])", "np.uint64(i)", "a[n - 1 - i]"]


def _tree(r: random.Random, depth: int, leaves: list[str]) -> str:
    if depth == 0 or r.random() < 0.1:
        return r.choice(leaves) if r.random() < 0.75 else _number(r)
    left, right = _tree(r, depth - 1, leaves), _tree(r, depth - 1, leaves) if r.random() < 0.5 else _number(r)
    match r.randrange(14):
        case 0:
            return f"{r.choice(['np.minimum', 'np.maximum'])}({left}, {right})"
        case 1:
            return f"np.clip({left}, {_number(r)}, {_number(r)})"
        case 2:
            return f"np.where({left} {r.choice(COMPARISONS)} {right}, {_tree(r, depth - 1, leaves)}, {left})"
        case 3:
            return f"{r.choice(['np.abs', '-', '~', 'np.sign', 'np.square', 'np.bitwise_count'])}({left})"
        case 4:
            return f"np.asarray({left}).astype(np.{r.choice(DTYPES)})"
        case 5:
            return f"({left} {r.choice(COMPARISONS)} {right})"
        case _:
            operator = r.choice(OPERATORS)
            if operator == "<<":  # of Python's numbers, in a branch that is not taken, a great one has no end
                right = r.choice(["1", "7", "40", "np.uint8(3)", "np.int64(63)"])
            return f"({left} {operator} {right})"


def _number(r: random.Random) -> str:
    number = r.choice(ENDS) * r.choice([1, 1, 1, -1])
    if r.random() < 0.5:
        return f"({number})"
    fitting = [d for d in DTYPES if np.iinfo(d).min <= number <= np.iinfo(d).max]
    return f"np.{r.choice(fitting)}({number})" if fitting else "np.int64(1)"


def _result(r: random.Random, expression: str) -> str:
    """The number itself, a comparison of it, or what it is an index of."""
    match r.randrange(6):
        case 0:
            return f"{expression} {r.choice(COMPARISONS)} {_number(r)}"
        case 1:
            return f"x[{expression} % n]"
        case 2:
            return f"x[np.clip({expression}, 0, n - 1)]"
        case 3:
            return f"x[{expression}]"
        case 4:
            return f"x[({expression}) >> {r.choice([40, 57, 60, 61])}]"
        case _:
            return expression


def _runs(made: list[Statement], arguments: dict[str, Any]) -> bool:
    """Whether NumPy computes it, without a conversion of a float that no integer of the dtype is."""
    names = {"np": np, "n": len(arguments["x"]), **arguments}
    try:
        with np.errstate(all="ignore", invalid="raise"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(source(made), names)
    except (ArithmeticError, IndexError, TypeError, ValueError, MemoryError):
        return False
    return True
