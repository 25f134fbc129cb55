"""Verifiers: what every jaxpr and every kernel must satisfy after every pass.  Each runs in linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from tracejit.ir import kernel as k
from tracejit.ir.convergence import divergent_barrier
from tracejit.ir.extents import Dim, Extent
from tracejit.ir.jaxpr import Equation, Jaxpr, Literal, Var
from tracejit.ir.kernel import Block, Buffer, Const, Kernel, Lambda, Operand, Statement, Value
from tracejit.ir.scalar import ALL_DTYPES, BITS, OPS, is_complex, is_integer
from tracejit.ir.text.jaxpr import show_equation
from tracejit.ir.text.kernel import inferred_dtype, show_statement
from tracejit.ir.types import ShapedArray
from tracejit.support.errors import TracejitError, VerifyError
from tracejit.support.nodes import as_dict, has_fields
from tracejit.support.source import Location

__all__ = ["check_jaxpr", "check_kernel"]


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Every variable is defined once and before its use; outputs have the types that the primitives' rules give;
    nested jaxprs too.

    Raises: VerifyError, with the equation underlined and the user's line.
    """
    seen: set[int] = set()
    work = [jaxpr]
    while work:
        current = work.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        _check_one_jaxpr(current)
        for equation in current.equations:
            work += _nested_jaxprs(equation.primitive.parameters().values())


def _nested_jaxprs(values: Iterable[Any]) -> list[Jaxpr]:
    found: list[Jaxpr] = []
    work = list(values)
    while work:
        value = work.pop()
        if isinstance(value, Jaxpr):
            found.append(value)
        elif isinstance(value, tuple):
            work += cast("tuple[Any, ...]", value)
        elif has_fields(type(value)) and not isinstance(value, Dim | ShapedArray):
            work += as_dict(value).values()
    return found


def _check_one_jaxpr(jaxpr: Jaxpr) -> None:
    defined: set[Var] = set()

    def fail(number: int, what: str) -> NoReturn:
        location = jaxpr.equations[number].location if 0 <= number < len(jaxpr.equations) else None
        raise VerifyError(f"jaxpr: {what}\n{show_equation(jaxpr, number)}", location=location)

    def define(number: int, variables: Sequence[Var]) -> None:
        for var in variables:
            if not isinstance(var, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
                fail(number, f"{var!r} is not a variable")
            if var in defined:
                fail(number, f"a variable of type {var.aval} is defined twice")
            defined.add(var)

    def use(number: int, atoms: Sequence[Var | Literal]) -> None:
        for position, atom in enumerate(atoms):
            if isinstance(atom, Literal):
                if atom.aval.shape != ():
                    fail(number, f"operand {position} is a literal of type {atom.aval}; literals are scalar")
            elif atom not in defined:
                fail(number, f"operand {position} of type {atom.aval} is used before it is defined")

    define(-1, jaxpr.inputs)
    for number, equation in enumerate(jaxpr.equations):
        use(number, equation.inputs)
        complaint = _type_complaint(equation)
        if complaint:
            fail(number, complaint)
        define(number, equation.outputs)
    use(len(jaxpr.equations), jaxpr.outputs)


def _type_complaint(equation: Equation) -> str:
    """What is wrong with the types of an equation's outputs; weakness is free,
    since it acts on promotion while tracing only.
    """
    primitive = equation.primitive
    try:
        stated = primitive.abstract_eval(*[a.aval for a in equation.inputs])
    except (TracejitError, TypeError, ValueError, IndexError) as error:
        first = (str(error).splitlines() or [""])[0]
        return f"[{primitive.name}] does not accept its operands: {type(error).__name__}: {first}"
    expected: tuple[ShapedArray, ...] = tuple(stated) if primitive.multiple_results else (stated,)
    if len(expected) != len(equation.outputs):
        return f"[{primitive.name}] has {len(expected)} results, the equation {len(equation.outputs)}"
    for position, (want, var) in enumerate(zip(expected, equation.outputs, strict=True)):
        if not _same_type(want, var.aval):
            return f"[{primitive.name}] result {position} is {want}, the equation says {var.aval}"
    return ""


def _same_type(a: ShapedArray, b: ShapedArray) -> bool:
    return a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(map(_same_extent, a.shape, b.shape))


def _same_extent(a: Extent, b: Extent) -> bool:
    return a.same(b) if isinstance(a, Dim) else not isinstance(b, Dim) and a == b


def check_kernel(kernel: Kernel) -> None:
    """Values dominate their uses, dtypes and ranks fit, carries, yields and results agree, stores go where they may,
    axes are legal, all lanes of a group reach its barriers.

    Raises: VerifyError, with the statement underlined and the user's line if one is known.
    """
    _KernelChecker(kernel).run()


_NUMBERS: Any = (int, float, complex, np.number, np.bool_)
_AXES = frozenset({"serial", "parallel", "vector", "unroll", "grid", "block"})
_IN_ORDER = frozenset({"serial", "unroll"})
_LAYOUTS = frozenset({"C", "unit", "strided"})


class _KernelChecker:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.dims = frozenset(kernel.dims)
        self.visible: set[Value] = set()
        self.ever: set[Value] = set()
        self.buffers: set[int] = set()
        self.lambdas: set[int] = set()
        self.kinds: list[str] = []
        self.loops: list[k.For] = []
        self.current: Statement | None = None
        self.location: Location | None = None
        self.pure = False

    def fail(self, what: str) -> NoReturn:
        context = show_statement(self.kernel, self.current)
        raise VerifyError(f"kernel {self.kernel.name}: {what}\n{context}", location=self.location)

    def run(self) -> None:
        kernel = self.kernel
        names = [b.name for b in kernel.buffers]
        if len(set(names)) != len(names):
            self.fail("two parameters have one name")
        if not kernel.outputs <= set(names):
            self.fail(f"outputs {sorted(kernel.outputs - set(names))} are not parameters")
        for buffer in kernel.buffers:
            self.declare(buffer)
        self.block(kernel.body)
        self.current = divergent_barrier(kernel.body)
        if self.current is not None:
            self.fail("not all lanes of a group reach the barrier in here")

    def declare(self, buffer: Buffer) -> None:
        if buffer.dtype not in ALL_DTYPES:
            self.fail(f"buffer {buffer.name} has the unknown dtype {buffer.dtype!r}")
        if buffer.layout not in _LAYOUTS:
            self.fail(
                f"buffer {buffer.name} has the unknown layout {buffer.layout!r}; layouts are "
                f"{', '.join(sorted(_LAYOUTS))}"
            )
        if not buffer.space.known:
            self.fail(
                f"buffer {buffer.name} lies in the unknown memory space {buffer.space!r}; memory spaces are "
                f"{', '.join(k.SPACES)}"
            )
        for extent in buffer.shape:
            if isinstance(extent, Dim):
                self.symbols(extent)
            elif type(extent) is not int or extent < 0:
                self.fail(f"buffer {buffer.name} has the extent {extent!r}")
        self.buffers.add(id(buffer))

    def symbols(self, dim: Dim) -> None:
        unknown = dim.symbols() - self.dims
        if unknown:
            self.fail(f"extent {dim} uses {', '.join(sorted(unknown))}, which the kernel does not declare in dims")

    def define(self, *values: Value) -> None:
        for value in values:
            if value in self.ever:
                self.fail("a value is defined twice")
            if value.dtype not in ALL_DTYPES:
                self.fail(f"a value has the unknown dtype {value.dtype!r}")
            self.ever.add(value)
            self.visible.add(value)

    def use(self, operand: Operand, what: str, dtype: str | None = None) -> None:
        if isinstance(operand, Value):
            if operand not in self.visible:
                defined = (
                    "defined in a block that does not enclose this one"
                    if operand in self.ever
                    else "not defined before"
                )
                self.fail(f"{what} is {defined}")
        elif isinstance(operand, Const):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.constant(operand, what)
        else:
            self.fail(f"{what} is {operand!r}, neither a value nor a constant")
        if dtype is not None and operand.dtype != dtype:
            self.fail(f"{what} is {operand.dtype}, not {dtype}")

    def constant(self, const: Const, what: str) -> None:
        value: Any = const.value
        dtype = const.dtype
        if dtype not in ALL_DTYPES:
            self.fail(f"{what} is a constant of the unknown dtype {dtype!r}")
        if isinstance(value, Dim):
            if not is_integer(dtype):
                self.fail(f"{what} is the extent {value} as {dtype}; extents are integers")
            self.symbols(value)
        elif not isinstance(value, _NUMBERS):
            self.fail(f"{what} is the constant {value!r}, which is not a number")
        elif is_complex(dtype):
            return
        elif isinstance(value, complex):
            self.fail(f"{what} is the constant {value!r}, which is no {dtype}")
        elif is_integer(dtype) and not (
            int(value) == value and np.iinfo(ALL_DTYPES[dtype]).min <= value <= np.iinfo(ALL_DTYPES[dtype]).max
        ):
            self.fail(f"{what} is the constant {value!r}, which is no {dtype}")
        elif dtype == "bool" and value not in (0, 1):
            self.fail(f"{what} is the constant {value!r}, which is no bool")

    def uses(self, operands: Sequence[Operand], what: str, dtype: str | None = None) -> None:
        for number, operand in enumerate(operands):
            self.use(operand, f"{what} {number}", dtype)

    def block(
        self,
        block: Block,
        defined: Sequence[Value] = (),
        last: Sequence[Operand] = (),
        what: str = "yield",
        *,
        keep: bool = False,
    ) -> None:
        """A nested block: what it allocates and, unless `keep`, what it defines is gone after it."""
        owner, before, buffers = self.current, list[Value](), self.buffers
        self.buffers = set(buffers) if any(k.allocated_by(s) for s in block) else buffers
        self.define(*defined)
        before += defined
        for statement in block:
            self.current = statement
            self.location = getattr(statement, "location", None) or self.location
            _CHECKS.get(type(statement), _KernelChecker.any_other)(self, statement)
            before += k.results_of(statement)
        self.current = owner
        self.uses(last, what)
        if not keep:
            self.visible.difference_update(before)
        self.buffers = buffers

    def nested(self, s: Statement) -> None:
        """The blocks of a statement: all see what it binds, later ones what an earlier one defines if that is seen."""
        inside = list(k.bound_in(s))
        self.define(*inside)
        for field in k.block_fields(type(s)):
            block: Block = getattr(s, field.name)
            self.block(block, (), k.last_of(s, field), field.word, keep=field.seen)
            if field.seen:
                inside += [v for x in block for v in k.results_of(x)]
        self.visible.difference_update(inside)

    def op(self, s: k.Op) -> None:
        spec = OPS.get(s.op)
        if spec is None:
            self.fail(f"there is no scalar operation {s.op!r}")
        if len(s.args) != spec.arity:
            self.fail(f"{s.op} takes {spec.arity} operands, not {len(s.args)}")
        self.uses(s.args, f"{s.op}: operand")
        args = [a.dtype for a in s.args]
        if s.op == "select":
            if args[0] != "bool":
                self.fail(f"select: the condition is {args[0]}, not bool")
            args = args[1:]
        if len(set(args)) > 1:
            self.fail(f"{s.op}: the operands are {' and '.join(args)}; they must have one dtype")
        self.kind(s.op, args[0])
        expected = inferred_dtype(s.op, s.args)
        if expected is not None and s.out.dtype != expected:
            self.fail(f"{s.op}: the result is {s.out.dtype}, it must be {expected}")
        if s.op == "bitcast" and ("bool" in (args[0], s.out.dtype) or BITS[args[0]] != BITS[s.out.dtype]):
            self.fail(f"bitcast from {args[0]} to {s.out.dtype}: the sizes differ or one is bool")
        self.define(s.out)

    def kind(self, op: str, dtype: str) -> None:
        if not OPS[op].accepts(dtype):
            self.fail(f"{op} is not defined on {dtype}")

    def access(self, buffer: Buffer, index: Sequence[Operand] | None) -> None:
        if self.pure:
            self.fail("a combiner works on scalars only")
        if id(buffer) not in self.buffers:
            self.fail(f"buffer {buffer.name} is neither a parameter nor allocated here")
        if index is None:
            return
        if len(index) != len(buffer.shape):
            self.fail(f"buffer {buffer.name} of rank {len(buffer.shape)} is indexed by {len(index)} operands")
        self.uses(index, f"{buffer.name}: index", "i64")

    def written(self, buffer: Buffer) -> None:
        if buffer in self.kernel.buffers and buffer.name not in self.kernel.outputs:
            self.fail(f"buffer {buffer.name} is written but is not an output")

    def load(self, s: k.Load) -> None:
        self.access(s.buffer, s.index)
        if s.out.dtype != s.buffer.dtype:
            self.fail(f"load from {s.buffer.name}: the result is {s.out.dtype}, the buffer {s.buffer.dtype}")
        self.define(s.out)

    def store(self, s: k.Store) -> None:
        self.access(s.buffer, s.index)
        self.written(s.buffer)
        self.use(s.value, f"store to {s.buffer.name}: the value", s.buffer.dtype)

    def atomic(self, s: k.Atomic) -> None:
        self.access(s.buffer, s.index)
        self.written(s.buffer)
        spec = OPS.get(s.op)
        if spec is None or spec.arity != 2 or spec.result != "same":
            self.fail(f"{s.op!r} is not an operation that can be atomic")
        self.kind(s.op, s.buffer.dtype)
        self.use(s.value, f"atomic {s.op} on {s.buffer.name}: the value", s.buffer.dtype)

    def alloc(self, s: k.Alloc) -> None:
        if self.pure:
            self.fail("a combiner works on scalars only")
        self.allocated(s.buffer)

    def allocated(self, buffer: Buffer) -> None:
        if id(buffer) in self.buffers:
            self.fail(f"buffer {buffer.name} is allocated twice")
        if buffer.layout != "C":
            self.fail(f"buffer {buffer.name} is allocated with layout {buffer.layout}; allocations are C")
        self.declare(buffer)

    def barrier(self, s: k.Barrier) -> None:
        if self.pure:
            self.fail("a combiner works on scalars only")

    def any_other(self, s: Statement) -> None:
        """By what the fields are declared to be."""
        if type(s) not in k.STATEMENTS or isinstance(s, k.Read):  # forms read
            self.fail(f"{type(s).__name__} is not a statement of a kernel")
        if self.pure and not k.is_pure(s):
            self.fail("a combiner works on scalars only")
        for access in k.accesses_of(s):
            self.access(access.buffer, access.index)
            if access.writes:
                self.written(access.buffer)
        for buffer in k.allocated_by(s):
            self.allocated(buffer)
        for name, several in k.fields_by_role(type(s), "used"):
            x = getattr(s, name)
            self.uses(x if several else (x,), f"{type(s).__name__}: operand")
        self.nested(s)
        self.define(*k.results_of(s))

    def prefix(self, s: k.Prefix) -> None:
        loop = self.loops[-1] if self.loops else None
        if loop is None or loop.combine is None or s not in loop.body:
            self.fail("a prefix stands directly in the body of a loop with combine")
        if s.params != loop.params or s.outs != loop.yields:
            self.fail("a prefix takes the carried values of its loop, and the loop yields its results")
        if [e.dtype for e in s.elements] != [p.dtype for p in s.params]:
            self.fail(f"the elements of a prefix are {_list(s.elements)}, the carried values {_list(s.params)}")
        if [o.dtype for o in s.outs] != [p.dtype for p in s.params]:
            self.fail(f"the results of a prefix are {_list(s.outs)}, the carried values {_list(s.params)}")
        self.uses(s.elements, "prefix: element")
        self.uses(s.params, "prefix: carried value")
        self.define(*s.outs)

    def carried(
        self, params: Sequence[Value], inits: Sequence[Operand], yields: Sequence[Operand], results: Sequence[Value]
    ) -> None:
        sizes = (len(params), len(inits), len(yields), len(results))
        if len(set(sizes)) > 1:
            self.fail(
                f"{sizes[0]} carried values have {sizes[1]} initial values, {sizes[2]} yields and {sizes[3]} results"
            )
        for number, (param, *others) in enumerate(zip(params, inits, yields, results, strict=True)):
            for other, what in zip(others, ("initial value", "yield", "result"), strict=True):
                if other.dtype != param.dtype:
                    self.fail(f"carried value {number} is {param.dtype}, its {what} {other.dtype}")

    def loop(self, s: k.For) -> None:
        self.use(s.lower, "the lower bound", "i64")
        self.use(s.upper, "the upper bound", "i64")
        self.uses(s.inits, "initial value")
        self.carried(s.params, s.inits, s.yields, s.results)
        self.axis(s)
        if s.index.dtype != "i64":
            self.fail(f"the loop index is {s.index.dtype}, not i64")
        if type(s.step) is not int or s.step < 1:
            self.fail(f"the step is {s.step!r}, not a positive integer")
        if s.combine is not None:
            self.combiner(s, s.combine)
        self.kinds.append(s.axis.kind)
        self.loops.append(s)
        self.nested(s)
        self.kinds.pop()
        self.loops.pop()
        self.define(*s.results)

    def axis(self, s: k.For) -> None:
        kind = s.axis.kind
        if kind not in _AXES:
            self.fail(f"there is no axis kind {kind!r}; kinds are {', '.join(sorted(_AXES))}")
        if s.axis.width < 1 or s.axis.factor < 1:
            self.fail(f"axis {kind} has width {s.axis.width} and factor {s.axis.factor}; both are at least 1")
        if s.params and s.combine is None and kind not in _IN_ORDER:
            self.fail(f"a recurrence (carried values without combine) runs in order; its axis may not be {kind}")
        if kind not in _IN_ORDER and "vector" in self.kinds:
            self.fail(f"a {kind} axis may not lie inside a vector axis")

    def combiner(self, s: k.For, combine: Lambda) -> None:
        dtypes = [p.dtype for p in s.params]
        if not dtypes:
            self.fail("combine without carried values")
        if [p.dtype for p in combine.params] != dtypes * 2:
            self.fail(f"combine takes {_list(combine.params)}; the carried values twice are {', '.join(dtypes * 2)}")
        if [r.dtype for r in combine.results] != dtypes:
            self.fail(f"combine gives {_list(combine.results)}; the carried values are {', '.join(dtypes)}")
        if id(combine) in self.lambdas:
            return  # the same combiner may serve several loops
        self.lambdas.add(id(combine))
        outer, self.visible, pure, self.pure = self.visible, set(), self.pure, True
        self.block(combine.body, combine.params, combine.results, "result of combine")
        self.visible, self.pure = outer, pure

    def while_(self, s: k.While) -> None:
        self.uses(s.inits, "initial value")
        self.carried(s.params, s.inits, s.yields, s.results)
        if type(s.unroll) is not int or s.unroll < 1:
            self.fail(f"unroll is {s.unroll!r}, not a positive integer")
        if s.test.dtype != "bool":
            self.fail(f"the test of a while is {s.test.dtype}, not bool")
        self.nested(s)
        self.define(*s.results)

    def if_(self, s: k.If) -> None:
        self.use(s.condition, "the condition", "bool")
        sizes = (len(s.results), len(s.then_yields), len(s.else_yields))
        if len(set(sizes)) > 1:
            self.fail(f"the if has {sizes[0]} results, yields {sizes[1]} where true and {sizes[2]} where false")
        for number, (result, *yields) in enumerate(zip(s.results, s.then_yields, s.else_yields, strict=True)):
            for operand, what in zip(yields, ("true", "false"), strict=True):
                if operand.dtype != result.dtype:
                    self.fail(f"result {number} of the if is {result.dtype}, where {what} it yields {operand.dtype}")
        self.nested(s)
        self.define(*s.results)


def _list(operands: Sequence[Operand]) -> str:
    return ", ".join(o.dtype for o in operands) or "nothing"


_CHECKS: dict[type, Callable[[_KernelChecker, Any], None]] = {
    k.Op: _KernelChecker.op, k.Load: _KernelChecker.load, k.Store: _KernelChecker.store,
    k.Atomic: _KernelChecker.atomic, k.Alloc: _KernelChecker.alloc, k.Barrier: _KernelChecker.barrier,
    k.For: _KernelChecker.loop, k.While: _KernelChecker.while_, k.If: _KernelChecker.if_,
    k.Prefix: _KernelChecker.prefix,
}  # fmt: skip
