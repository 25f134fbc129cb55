"""Random expressions over small arrays of every dtype, hundreds in one function, each a result of its own.

An expression is a call of `templates` whose operands are arguments or other expressions.  What it must be is what the
same text is in plain Python; how exactly says the grade of its template, and an operand that is itself inexact is only
moved, never computed with.
"""

from __future__ import annotations

import math
import random
import re
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

import tracejit as tj
from tests.generators.harness import Tally, differs, loaded, refused
from tests.generators.templates import ALL, FAMILIES, Template
from tracejit.support.nodes import define

__all__ = [
    "Expressions",
    "Group",
    "Node",
    "SCALARS",
    "again",
    "evaluate",
    "group",
    "spelled",
    "values",
    "verdicts",
    "wrong",
]

SHAPES: list[tuple[int, ...]] = [
    (5,), (5,), (5,), (3, 5), (3, 5), (5, 5), (3, 1), (5, 3), (), (2, 3, 5), (1,), (3,), (4,), (3, 3), (0,), (3, 5),
    (5,), (17,),
]  # fmt: skip
DTYPES = ["f8", "f8", "f4", "f4", "i8", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "?", "f2"]
ORDINARY = [
    "0", "1", "2", "3", "7", "100", "0.5", "-1.5", "2.0", "True", "1e-3", "-0.0", "3.75", "1e300", "-1e-310", "np.inf",
    "np.nan", "1e39",
]  # fmt: skip
OUTSIDE = [
    "-1", "-2", "127", "128", "-128", "-129", "255", "256", "300", "32767", "65536", "2**31", "-2**31", "2**32",
    "2**62", "2**53 + 1", "70000.0", "-np.inf", "2**63", "2**64 - 1", "-2**63", "2**64",
]  # fmt: skip
"""Numbers that some integer dtype cannot hold."""
NUMBERS = ORDINARY + OUTSIDE
SCALARS = {"i0": "3", "i1": "-2", "f0": "1.25", "f1": "-0.75", "b0": "True"}
SPECIAL: dict[str, list[Any]] = {
    "f": [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-320, -1e-40, 6e-8, 65504.0, 3e38, 1e300, 2.5, -2.5, 0.5, 1.0,
    -1.0, 1e15, 2.0**53], "i": [0, 1, -1, "min", "max", "min + 1", "max - 1", 2, 7, -7, 100],
    "u": [0, 1, "max", "max - 1", 2, 7, 200], "b": [True, False],
}  # fmt: skip


@define(eq=False)
class Node:
    """An expression: its text, what it is made of, its value and how far another answer may be from that."""

    text: str
    template: Template
    code: CodeType
    operands: dict[str, Node]
    depth: int
    value: Any = None
    tolerance: float | Any = 0.0
    zeros: bool = True
    error: str | None = None


@define(eq=False)
class Group:
    """Expressions over the same arguments."""

    seed: int
    names: list[str]
    arguments: dict[str, Any]
    nodes: list[Node]

    def text(self, only: list[Node] | None = None) -> str:
        """A module whose `f` gives the list of all results, None for one that raises, which `failed` is told."""
        nodes = self.nodes if only is None else only
        lines = [f"def f({', '.join(self.names)}):", f"    r = [None] * {len(nodes)}"]
        for n, node in enumerate(nodes):
            lines += [
                "    try:",
                f"        r[{n}] = {node.text}",
                "    except Exception as e:",
                f"        failed({n}, e)",
            ]
        return "\n".join([*lines, "    return r", ""])

    def alone(self, node: Node, what: str) -> str:
        """A program of one expression."""
        used = [n for n in self.names if re.search(rf"\b{n}\b", node.text)]
        lines = [f"# {what}", "import numpy as np, tracejit as tj", f"f = lambda {', '.join(used)}: {node.text}"]
        lines += [f"{n} = {spelled(self.arguments[n])}" for n in used]
        return "\n".join([*lines, f"print(f({', '.join(used)}))", f"print(tj.jit(f)({', '.join(used)}))"])


def spelled(x: Any) -> str:
    """An argument as text."""
    if not isinstance(x, np.ndarray):
        return repr(x)
    text = repr(x.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, '{x.dtype.str[1:]}')" + (f".reshape({x.shape})" if not x.size else "")


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Small numbers, ordinary ones, or those at the ends of the dtype's range."""
    kind, d = np.dtype(dtype).kind, np.dtype(dtype)
    style = rng.integers(0, 4)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if style <= 1:
        return rng.integers(0 if kind == "u" else -3, 6, shape).astype(d)
    if style == 2:
        return (
            (rng.normal(size=shape) * 4).astype(d) if kind == "f" else rng.integers(*_small_range(d), shape).astype(d)
        )
    choices = SPECIAL[kind]
    picked = [choices[k] for k in rng.integers(0, len(choices), math.prod(shape))]
    if kind in "iu":
        info = np.iinfo(d)
        picked = [eval(p, {"min": info.min, "max": info.max}) if isinstance(p, str) else p for p in picked]
    with np.errstate(all="ignore"):
        return np.array(picked, "f8" if kind == "f" else d).astype(d).reshape(shape)


def _small_range(d: np.dtype[Any]) -> tuple[int, int]:
    info = np.iinfo(d)
    return max(info.min, -1000), min(info.max, 1000)


@cache
def _code(text: str) -> CodeType:
    return compile(text, "<template>", "eval")


HOLE = re.compile(r"{(\w+)}")


class Expressions:
    """Draws one group."""

    def __init__(self, seed: int, count: int, shapes: list[tuple[int, ...]] = SHAPES, most_depth: int = 4) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.count = count
        self.shapes = shapes
        self.most_depth = most_depth
        rng = np.random.default_rng(seed)
        self.arguments: dict[str, Any] = {}
        shift = self.random.randrange(len(DTYPES))
        for n, shape in enumerate(shapes):
            self.arguments[f"a{n}"] = values(rng, shape, DTYPES[(7 * n + shift) % len(DTYPES)])
        for name, text in SCALARS.items():
            self.arguments[name] = eval(text)
        self.names = list(self.arguments)
        self.pool = [
            Node(n, ALL[0], _code("0"), {}, 0, v) for n, v in self.arguments.items() if isinstance(v, np.ndarray)
        ]
        self.environment = {"np": np, **{n: self.arguments[n] for n in SCALARS}}

    def derive(self, templates: list[Template], count: int) -> None:
        """Put expressions made by these templates among the operands."""
        with np.errstate(all="ignore"):
            for _ in range(count):
                node = self.draw(templates)
                if node is not None and node.error is None:
                    self.pool.append(node)

    def draw(self, templates: list[Template] = ALL) -> Node | None:
        """One expression, None if NumPy refuses it and no one would write it."""
        r = self.random
        template = r.choice(templates)
        operands: dict[str, Node] = {}
        texts: dict[str, str] = {}
        shape: dict[str, Any] = {}
        depth = 0
        code = template.text
        for hole in dict.fromkeys(HOLE.findall(template.text)):
            if hole in "abc":
                node = self.operand(shape.get("a"), template)
                operands[hole] = node
                shape[hole] = node.value.shape
                texts[hole] = node.text if node.text.isidentifier() else f"({node.text})"
                depth = max(depth, node.depth)
                code = code.replace("{" + hole + "}", f"{hole}_")
            else:
                texts[hole] = self.literal(hole, operands.get("a"))
                code = code.replace("{" + hole + "}", texts[hole])
        made = Node(template.text.format(**texts), template, _code(code), operands, depth + 1)
        if len(made.text) > 300:
            return None
        evaluate(made, self.environment)
        if made.error is not None:
            return made if made.error in RAISED and r.random() < 0.02 else None
        if (
            not isinstance(made.value, (np.ndarray, np.generic))
            or made.value.dtype.kind not in "biuf"
            or np.size(made.value) > 400
        ):
            return None
        return made

    def operand(self, like: tuple[int, ...] | None, template: Template) -> Node:
        """An argument or an earlier expression, more often than not of the shape of the first operand."""
        inexact = template.grade == ">"
        for _ in range(6):
            node = (
                self.random.choice(self.pool)
                if self.random.random() < 0.7
                else self.random.choice(self.pool[: len(self.shapes)])
            )
            if not inexact and (not node.zeros or np.any(node.tolerance)):
                continue
            if like is None or node.value.shape == like or self.random.random() < 0.3:
                return node
        return self.random.choice(self.pool[: len(self.shapes)])

    def literal(self, hole: str, a: Node | None) -> str:
        r = self.random
        match hole:
            case "k":
                return str(r.randrange(0 if NUMBERS is ORDINARY else -3, 4))
            case "n":
                return r.choice(NUMBERS)
            case "ax":
                rank = max(1, a.value.ndim) if a is not None else 1
                return str(r.randrange(-rank, rank))
            case "dtype":
                return r.choice(DTYPES)
            case "name":
                return r.choice(["float32", "int8", "uint16", "float64", "int64", "bool"])
            case _:
                raise AssertionError(hole)

    def group(self) -> Group:
        nodes: list[Node] = []
        with np.errstate(all="ignore"):
            while len(nodes) < self.count:
                node = self.draw()
                if node is None:
                    continue
                if node.error is None and node.depth < self.most_depth and node.value.size <= 60:
                    self.pool.append(node)
                if node.error is None and node.depth < self.most_depth and self.random.random() < 0.3:
                    continue  # computed within others only
                nodes.append(node)
        return Group(self.seed, self.names, self.arguments, nodes)


def evaluate(node: Node, environment: dict[str, Any]) -> None:
    """Value, tolerance and error of a node whose operands have theirs."""
    names = dict(environment)
    operands = [o for o in node.operands.values()]
    for hole, operand in node.operands.items():
        names[f"{hole}_"] = operand.value
    node.error = next((o.error for o in operands if o.error is not None), None)
    if node.error is not None:
        return
    try:
        node.value = eval(node.code, names)
    except Exception as error:
        node.error = type(error).__name__
        return
    if not isinstance(node.value, (np.ndarray, np.generic)):
        return
    if _is_undefined(node, operands):
        node.tolerance = math.inf
    elif node.value.dtype.kind == "f":
        node.tolerance = _tolerance(node, operands)
    elif any(np.any(o.tolerance) for o in operands):
        node.tolerance = math.inf  # an inexact number made an integer
    elif (
        node.value.dtype.kind in "iu"
        and CASTS.search(node.text)
        and not all(_fits(o.value, node.value.dtype) for o in operands)
    ):
        node.tolerance = math.inf  # C leaves it to the processor what integer such a number becomes
    node.zeros = node.template.grade in "x>m" and all(o.zeros for o in operands)


def _is_undefined(node: Node, operands: list[Node]) -> bool:
    """Whether no one says what the values are: of the sign of a NaN,
    and of np.isin where integers become equal as floats."""
    values = [o.value for o in operands]
    if node.template.name in ("copysign", "signbit"):
        return any(v.dtype.kind == "f" and bool(np.isnan(v).any()) for v in values)
    if (
        node.template.name != "isin"
        or len({v.dtype.kind for v in values} & {"f", "u"}) + any(v.dtype.kind == "i" for v in values) < 2
    ):
        return False
    return any(
        v.dtype.kind in "iu" and v.size and float(np.max(np.abs(v.astype(np.float64)))) >= 2.0**53 for v in values
    )


CASTS = re.compile("astype|dtype|full|'[iu][1248]'|np.int|np.uint|insert|choose|piecewise|round|around")


def _fits(x: Any, dtype: np.dtype[Any]) -> bool:
    """Whether the numbers can be made integers of a dtype."""
    info = np.iinfo(dtype)
    return x.dtype.kind in "iub" or bool(np.all(np.isfinite(x) & (x > info.min - 1.0) & (x < info.max)))


def again(nodes: list[Node], arguments: dict[str, Any]) -> None:
    """Evaluate expressions and what they are made of with other arguments."""
    done: set[int] = set()
    environment = {"np": np, **{n: arguments[n] for n in SCALARS}}

    def visit(node: Node) -> None:
        if id(node) in done:
            return
        done.add(id(node))
        if not node.depth:
            node.value = arguments[node.text]
            return
        for operand in node.operands.values():
            visit(operand)
        node.tolerance = 0.0
        evaluate(node, environment)

    with np.errstate(all="ignore"):
        for node in nodes:
            visit(node)


RAISED = {
    "OverflowError",
    "IndexError",
    "ZeroDivisionError",
    "TypeError",
    "ValueError",
    "AxisError",
    "UFuncTypeError",
    "_UFuncNoLoopError",
}


def _tolerance(node: Node, operands: list[Node]) -> Any:
    """How far from the value another way to compute it may be; infinite
    where infinities or overflow make the order matter."""
    want = node.value
    arrays = [np.abs(o.value.astype(np.float64)) for o in operands if o.value.size]
    largest = np.max([a.max() for a in arrays] or [1.0])  # NaN where there is one
    eps = float(np.finfo(want.dtype).eps)
    carried = max((float(np.max(o.tolerance, initial=0.0)) for o in operands), default=0.0) if operands else 0.0
    match node.template.grade:
        case "x" | "z":
            return math.inf if carried else 0.0
        case ">":
            return carried
        case "m":
            # the distance to the next number, of subnormals as well; the operand may be a product of rounding before
            # the function
            return (math.inf if carried else 0.0) + 8 * np.spacing(np.abs(np.where(np.isfinite(want), want, 1))).astype(
                np.float64
            )
        case grade:
            if carried or not math.isfinite(largest):
                return math.inf
            count = max((a.size for a in arrays), default=1)
            narrow = min(
                (float(np.finfo(o.value.dtype).eps) if o.value.dtype.kind == "f" else 0.0 for o in operands),
                default=0.0,
            )
            eps = max(
                eps,
                max(
                    (float(np.finfo(o.value.dtype).eps) for o in operands if o.value.dtype.kind == "f"), default=narrow
                ),
            )
            most = float(np.finfo(want.dtype).max)
            floats = [float(np.finfo(o.value.dtype).max) for o in operands if o.value.dtype.kind == "f"]
            power = {"s": 1, "d": 2, "v": 2, "q": 2, "i": 1, "w": 5, "p": 0}[grade]
            bound = (1 if grade == "i" else count) * (max(1.0, largest) if grade in "dw" else largest) ** power
            if not math.isfinite(bound) or bound * count > min([most, *floats]) / 4:
                return math.inf
            match grade:
                case "p":
                    if not all(np.isfinite(a).all() for a in arrays) or not np.isfinite(want).all():
                        return math.inf
                    binary = sum(float(np.sum(np.abs(np.log2(a[a > 0])))) for a in arrays)
                    if binary > 0.5 * math.log2(min([most, *floats])):  # another order might overflow on the way
                        return math.inf
                    return 4 * count * eps * np.abs(want).astype(np.float64) + float(
                        np.finfo(want.dtype).smallest_normal
                    )
                case "q":
                    return math.sqrt(4 * count * eps) * max(largest, 1e-30)
                case _:
                    return (
                        8
                        * count
                        * eps
                        * max(bound, float(np.max(np.abs(want), initial=0.0)) if np.isfinite(want).all() else 1.0)
                    )


PAIR_SHAPES: list[tuple[int, ...]] = [
    (5,),
    (3, 5),
    (5, 3),
    (4, 4),
    (8, 9),
    (9, 7),
    (7,),
    (2, 3, 5),
    (2, 5, 4),
    (17,),
    (),
]


class Pairs(Expressions):
    """Some expressions that have loops of their own, such as products of matrices, and others that read them,
    most of them directly.

    Each family of functions comes as often as the others, however many functions it has.
    """

    def __init__(self, seed: int, count: int) -> None:
        super().__init__(seed, count, PAIR_SHAPES, most_depth=5)
        self.heavy: list[Node] = []
        families = [f for name, f in FAMILIES.items() if name != "elements"] + [FAMILIES["products"]] * 3
        with np.errstate(all="ignore"):
            for _ in range(2000):
                node = super().draw(self.random.choice(families))
                if node is not None and node.error is None and node.value.size > 1:
                    self.heavy.append(node)
                    if len(self.heavy) == 4:
                        break

    def draw(self, templates: list[Template] = ALL) -> Node | None:
        return super().draw(self.random.choice([*FAMILIES.values(), FAMILIES["slices"]]))

    def operand(self, like: tuple[int, ...] | None, template: Template) -> Node:
        if self.heavy and self.random.random() < (0.8 if like is None else 0.3):
            node = self.random.choice(self.heavy)
            if template.grade == ">" or (node.zeros and not np.any(node.tolerance)):
                return node
        return super().operand(like, template)


def pairs(seed: int, count: int) -> Group:
    """The pairs of this seed."""
    return Pairs(seed, count).group()


def group(seed: int, count: int) -> Group:
    """The group of this seed."""
    return Expressions(seed, count).group()


def wrong(got: Any, error: BaseException | None, node: Node, tally: Tally | None) -> str | None:
    """What is wrong with one result."""
    if node.error is not None:
        # np.average gives what the division gives, and says so; what is true of an integer is so whatever its size
        fine = node.error in ("ZeroDivisionError", "RuntimeWarning") or (
            node.error == "OverflowError" and "logical" in node.text
        )
        if error is None and not fine:
            return f"no exception where NumPy has {node.error}"
        return None
    if error is not None:
        # a NumPy scalar, here an array of rank 0
        if refused(error) or (isinstance(error, AttributeError) and "'numpy." in str(error)):
            if tally is not None:
                tally.refuse(error)
            return None
        return f"{type(error).__name__}: {error}"
    tolerance = node.tolerance
    if not np.isscalar(tolerance) and np.shape(tolerance) != np.shape(node.value):
        tolerance = float(np.max(tolerance, initial=0.0))
    if isinstance(tolerance, float) and math.isinf(tolerance):
        g = np.asarray(got)
        same = g.shape == node.value.shape and g.dtype == node.value.dtype
        return None if same else f"{g.dtype}{g.shape}, not {node.value.dtype}{node.value.shape}"
    return differs(got, node.value, tolerance if np.any(tolerance) else None, node.zeros)


def run(made: Group, nodes: list[Node]) -> tuple[list[Any], dict[int, BaseException]]:
    """The compiled function's results, and the exceptions of those expressions that raise one while they are traced."""
    names = loaded(made.text(nodes), tj, source=made.seed % 8 == 0)
    errors: dict[int, BaseException] = {}
    names["failed"] = errors.__setitem__
    with np.errstate(all="ignore"):
        results = tj.jit(names["f"])(*made.arguments.values())
    return results, errors


def verdicts(made: Group, tally: Tally | None = None) -> list[tuple[Node, str]]:
    """Every expression of a group that is wrong, and how."""
    return _verdicts(made, made.nodes, tally)


def _verdicts(made: Group, nodes: list[Node], tally: Tally | None) -> list[tuple[Node, str]]:
    try:
        results, errors = run(made, nodes)
    except Exception as error:
        if len(nodes) == 1:
            found = wrong(None, error, nodes[0], tally)
            return [(nodes[0], found)] if found else []
        middle = len(nodes) // 2  # one of them raises when all of it runs
        return _verdicts(made, nodes[:middle], tally) + _verdicts(made, nodes[middle:], tally)
    if tally is not None:
        tally.calls += 1
    differing: list[tuple[Node, str]] = []
    for n, node in enumerate(nodes):
        what = wrong(results[n], errors.get(n), node, tally)
        if what:
            differing.append((node, what))
    return differing
