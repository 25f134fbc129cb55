"""A jaxpr to a program: buffers, and the loops and branches between kernels;
what makes the kernels are passes of `pipeline.py`.

Control flow recurses over the nesting of loops, not over the length of the program.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tracejit.compiler.compilation import Compilation, ComposedKernel
from tracejit.compiler.lower import written_out
from tracejit.compiler.share import may_share, shared
from tracejit.ir.extents import Count, Dim, Index, same_shape
from tracejit.ir.forms import HostFunction, KernelSources, LibraryCall, Loop, Scatter, Update, Whole
from tracejit.ir.jaxpr import Atom, Equation, Jaxpr, Literal, Var
from tracejit.ir.kernel import Kernel
from tracejit.ir.passes.groups import FormEquation, Group
from tracejit.ir.passes.reads import reads_own_base
from tracejit.ir.program import (
    BindExtent,
    Branch,
    Call,
    Check,
    Copy,
    CountedLoop,
    HostCall,
    KernelCall,
    Launch,
    Program,
    ProgramBuffer,
    Step,
    Steps,
    Swap,
    WhileLoop,
)
from tracejit.ir.scalar import kernel_dtype
from tracejit.ir.schedule import Schedule
from tracejit.ir.types import ShapedArray
from tracejit.primitives.branch import Cond
from tracejit.primitives.counted_loop import Loop as CountedLoopPrimitive
from tracejit.primitives.shape import BroadcastInDim
from tracejit.primitives.while_loop import While
from tracejit.support.errors import InternalError, UnsupportedError
from tracejit.support.nodes import evolve, field, frozen

__all__ = ["build_program", "own_outputs"]


class _Kernels:
    """What was made of the kernels so far: `made` has (the scheduled kernel, names of the buffers before that, the
    schedule) by `key`.
    """

    def __init__(self) -> None:
        self.made: dict[str, tuple[Kernel, tuple[str, ...], Schedule]] = {}
        self._first: Kernel | None = None

    def key(self, kernel: Kernel) -> str:
        """The text of a kernel without its name, by which equal ones are found;
        that of the first is written when there is a second.
        """
        if self._first is None:
            self._first = kernel
            return ""
        if "" in self.made:
            self.made[self._text(self._first)] = self.made.pop("")
        return self._text(kernel)

    def _text(self, kernel: Kernel) -> str:
        return str(evolve(kernel, name="kernel"))


@frozen(eq=False)
class _Context:
    """What the builders of a program and of the bodies in it share."""

    compilation: Compilation
    temporaries: list[ProgramBuffer] = field(factory=list[ProgramBuffer])
    numbers: Iterator[int] = field(factory=lambda: itertools.count(1))  # of temporaries and kernels
    kernels: _Kernels = field(factory=_Kernels)

    def report(self, equation: str, runs_in: str) -> None:
        self.compilation.log.report.append((equation, runs_in))

    def written_out(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr without equations that are composed of others."""
        c = self.compilation
        out = written_out(jaxpr, c.backend.name, c.alternatives, lambda name: self.report(name, "program"))
        return jaxpr if out is jaxpr else c.cleaned(out)


def own_outputs(jaxpr: Jaxpr, kept: Mapping[int, int] = MappingProxyType({})) -> Jaxpr:
    """Every output a distinct variable that an equation computes:
    arguments, literals and repeated outputs are copied.

    kept: outputs that may be an argument as it is, and which.
    """
    made = {v for e in jaxpr.equations for v in e.outputs}
    seen: set[Var] = set()
    extra: list[Equation] = []
    outputs: list[Var] = []
    for n, a in enumerate(jaxpr.outputs):
        if isinstance(a, Var) and a not in seen and (a in made or (n in kept and a is jaxpr.inputs[kept[n]])):
            seen.add(a)
            outputs.append(a)
            continue
        copy = Var(a.aval)
        extra.append(Equation(BroadcastInDim(a.aval.shape, tuple(range(a.aval.ndim))), (a,), (copy,)))
        outputs.append(copy)
    return Jaxpr(jaxpr.inputs, [*jaxpr.equations, *extra], outputs)


class _Builder:
    """Builds the steps of one jaxpr (the program's, or a loop body's)."""

    def __init__(self, context: _Context, buffers: dict[Var, ProgramBuffer], overwritable: set[Var]) -> None:
        self.c = context
        self.buffers = buffers
        self.overwritable = overwritable
        self.steps: list[Step] = []

    def temporary(self, var: Atom, stem: str = "t") -> ProgramBuffer:
        b = ProgramBuffer(f"{stem}{next(self.c.numbers)}", kernel_dtype(var.aval.dtype), var.aval.shape, "temporary")
        self.c.temporaries.append(b)
        return b

    def build(self, jaxpr: Jaxpr, targets: dict[Var, ProgramBuffer]) -> list[Step]:
        """Steps that compute the jaxpr's outputs, in `targets` where given, else in temporaries.

        Nothing is fused across an equation that binds an extent: what it needs is computed before, all else after it.
        """
        binding = next((e for e in jaxpr.equations if e.primitive.binds), None)
        if binding is None:
            self._fused(jaxpr, targets)
            return self.steps
        (count,), (result,) = binding.inputs, binding.outputs
        before, after = _around(jaxpr, binding)
        wanted = {a for e in after for a in e.inputs} | set(jaxpr.outputs)
        made = [v for e in before for v in e.outputs if v in wanted or v is count]
        kept = self.overwritable
        self.overwritable = kept - {a for a in wanted if isinstance(a, Var)}
        self._fused(Jaxpr(jaxpr.inputs, before, made), {v: b for v, b in targets.items() if v in made})
        own = {v for v in made if self.buffers[v].role == "temporary"}
        self.overwritable = kept | own
        symbol: Count = getattr(binding.primitive, binding.primitive.binds)
        self.steps.append(BindExtent(self.buffer_of(count), symbol, symbol.most))
        self.c.report(binding.primitive.name, "program")
        if result in wanted:
            after.insert(0, Equation(BroadcastInDim((), ()), (count,), (result,)))
        inputs = (*jaxpr.inputs, *made)
        return self.build(Jaxpr(inputs, after, jaxpr.outputs), {v: b for v, b in targets.items() if v not in made})

    def _fused(self, jaxpr: Jaxpr, targets: dict[Var, ProgramBuffer]) -> None:
        fusion, outputs = self.c.compilation.fused(jaxpr)
        self._assign(fusion.groups, outputs, targets)
        waiting: ComposedKernel | None = None  # of the group before: the next one may share its pass over a matrix
        for n, group in enumerate(fusion.groups):
            form = group.equations[0].form
            if isinstance(form, Loop):
                self._loop(group.equations[0], form)
            elif isinstance(form, LibraryCall):
                self._library(group.equations[0], form)
            else:
                made = self._composed(group)
                joint = None if waiting is None else shared(waiting, made, self._name(group))
                if waiting is not None and joint is None:
                    self._kernel(waiting)
                following = fusion.groups[n + 1] if n + 1 < len(fusion.groups) else None
                if joint is None and following is not None and self._may_share(group, following):
                    waiting = made
                    continue
                self._kernel(joint or made)
            waiting = None

    def _may_share(self, group: Group, following: Group) -> bool:
        """Whether a kernel may be made of two groups."""
        target = self.c.compilation.target
        return (
            bool(target.vector_bits) and not target.grid and self.c.compilation.inline and may_share(group, following)
        )

    # -- buffers -------------------------------------------------------------------------------------------------------
    def _assign(self, groups: Sequence[Group], outputs: Sequence[Atom], targets: dict[Var, ProgramBuffer]) -> None:
        """In-place decisions and the buffer of every stored variable."""
        last: dict[Atom, int] = {}
        for n, g in enumerate(groups):
            for v in g.inputs:
                last[v] = n
        for v in outputs:
            last[v] = len(groups)
        parent: dict[Var, Var] = {}
        self.taken: set[Var] = set()
        for n, g in enumerate(groups):
            first = g.equations[0]
            loop = first if isinstance(first.form, Loop) else None
            found = _in_place_base(g) if loop is None else None
            for changed, base in [found] if found is not None else _initial(loop) if loop is not None else []:
                if last[base] != n or base in self.taken:
                    continue
                if base in self.buffers and base not in self.overwritable:
                    continue  # an argument or captured array that must stay
                if loop is None:
                    g.in_place[changed] = base
                parent[changed] = base
                self.taken.add(base)

        def root(v: Var) -> Var:
            while v in parent:
                v = parent[v]
            return v

        wanted = {root(v): b for v, b in targets.items() if root(v) not in self.buffers}
        given = {v: b for v, b in targets.items()}
        for g in groups:
            for v in g.outputs:
                r = root(v)
                if r in self.buffers:
                    self.buffers[v] = self.buffers[r]
                else:
                    b = wanted.get(r) or given.get(v) or self.temporary(v)
                    self.buffers[r] = self.buffers[v] = b

    def _name(self, group: Group) -> str:
        return f"{'_'.join(dict.fromkeys(e.name for e in group.equations[-3:]))}_{next(self.c.numbers)}"

    def _composed(self, group: Group) -> ComposedKernel:
        return self.c.compilation.composed(group, self._name(group), lambda v: self.buffers[v].layout)

    def _kernel(self, made: ComposedKernel) -> None:
        composed = made.kernel
        # Equal kernels (the iterations of an unrolled loop) are scheduled and written once.
        key = self.c.kernels.key(composed)
        known = self.c.kernels.made.get(key)
        variables = {b.name: v for v, b in made.parameters.items()}
        if known is not None:
            scheduled, names, schedule = known
            by_place = dict(zip(names, composed.buffers, strict=True))
            arguments = tuple(self.buffers[variables[by_place[b.name].name]] for b in scheduled.buffers)
            self.steps.append(Launch(scheduled, arguments, schedule))
        else:
            made = self.c.compilation.scheduled(made)
            scheduled = made.kernel
            if made.product is None:
                self.c.kernels.made[key] = (scheduled, tuple([b.name for b in composed.buffers]), made.schedule)
            arguments = tuple(self.buffers[variables[b.name]] for b in scheduled.buffers)
            self.steps.append(Launch(scheduled, arguments, made.schedule, made.product))
        for e in made.group.equations:
            self.c.report(e.name, scheduled.name)

    def _library(self, e: FormEquation, form: LibraryCall) -> None:
        """A call over whole buffers; an operand in another layout is copied first."""
        backend = self.c.compilation.backend
        if not isinstance(form.environment, (KernelSources, HostFunction)) and not backend.calls_libraries:
            raise UnsupportedError(
                f"[{e.name}] the {backend.name} backend calls no libraries of this process "
                f"({form.environment.name}.{form.symbol})",
                location=e.location,
            ).about(backend=backend.name, primitive=e.name)
        results = [self.buffers[v] for v in e.outputs]
        operands: dict[int, ProgramBuffer] = {}
        for argument in form.arguments:
            if isinstance(argument, Whole) and argument.kind == "operand" and argument.number not in operands:
                operands[argument.number] = self.contiguous(e.inputs[argument.number])
        arguments = tuple(
            a if not isinstance(a, Whole) else operands[a.number] if a.kind == "operand" else results[a.number]
            for a in form.arguments
        )
        if isinstance(form.environment, KernelSources):
            self.steps.append(KernelCall(form.symbol, form.environment, arguments, tuple(results), form.grid))
        else:
            kind = HostCall if isinstance(form.environment, HostFunction) else Call
            self.steps.append(kind(form.symbol, form.environment, arguments, tuple(results)))
        self.c.report(e.name, f"{form.environment.name}.{form.symbol}")

    def contiguous(self, atom: Atom) -> ProgramBuffer:
        """The buffer of an operand, row-major."""
        b = self.buffer_of(atom)
        if b.layout == "C":
            return b
        copy = self.temporary(atom, "c")
        self.into(copy, atom)
        return copy

    # -- control flow --------------------------------------------------------------------------------------------------
    def buffer_of(self, atom: Atom) -> ProgramBuffer:
        """The buffer of an operand; a literal is written by a kernel of its own."""
        if isinstance(atom, Var):
            return self.buffers[atom]
        out = Var(atom.aval)
        jaxpr = Jaxpr([], [Equation(BroadcastInDim((), ()), (atom,), (out,))], [out])
        inner = _Builder(self.c, {}, set())
        target = self.temporary(out, "k")
        self.steps += inner.build(jaxpr, {out: target})
        return target

    def into(self, target: ProgramBuffer, atom: Atom) -> None:
        """Fill `target` with the value of an operand."""
        if isinstance(atom, Var) and self.buffers[atom].layout == "C":
            self.steps.append(Copy(target, self.buffers[atom]))
            return
        out = Var(atom.aval)
        source = Var(atom.aval)
        operand = atom if isinstance(atom, Literal) else source
        jaxpr = Jaxpr(
            [source],
            [Equation(BroadcastInDim(atom.aval.shape, tuple(range(atom.aval.ndim))), (operand,), (out,))],
            [out],
        )
        env = {source: self.buffers[atom]} if isinstance(atom, Var) else {}
        self.steps += _Builder(self.c, env, set()).build(jaxpr, {out: target})

    def nested(
        self,
        jaxpr: Jaxpr,
        arguments: Sequence[ProgramBuffer],
        overwritable: Sequence[bool],
        targets: Sequence[ProgramBuffer | None],
        kept: Mapping[int, int] = MappingProxyType({}),
    ) -> tuple[list[Step], list[ProgramBuffer]]:
        """(steps, buffers of the outputs) of a body."""
        jaxpr = own_outputs(self.c.written_out(self.c.compilation.cleaned(jaxpr)), kept)
        buffers = dict(zip(jaxpr.inputs, arguments, strict=True))
        free = {v for v, ok in zip(jaxpr.inputs, overwritable, strict=True) if ok}
        inner = _Builder(self.c, buffers, free)
        wanted = {v: t for v, t in zip(jaxpr.outputs, targets, strict=True) if t is not None and isinstance(v, Var)}
        steps = inner.build(jaxpr, wanted)
        return steps, [inner.buffers[v] for v in jaxpr.outputs]  # type: ignore[index]

    def _loop(self, e: FormEquation, form: Loop) -> None:
        parameters = dict(form.parameters)
        match form.kind:
            case "while":
                self._while(e, form, parameters["cond_consts"], parameters["body_consts"])
            case "for":
                self._for(e, form, parameters)
            case "cond":
                self._cond(e, form)
            case kind:
                raise InternalError(f"a {kind} loop in a program")
        self.c.report(e.name, "program")

    def _carry(self, carries: Sequence[ProgramBuffer], jaxpr: Jaxpr, consts: Sequence[ProgramBuffer]) -> list[Step]:
        """The steps of one iteration: the body into next buffers, then exchanges."""
        arguments = [*consts, *carries]
        steps, outs = self.nested(
            jaxpr, arguments, [False] * len(consts) + [True] * len(carries), [None] * len(carries)
        )
        copies: list[Step] = []
        swaps: list[Step] = []
        used: set[ProgramBuffer] = set()
        for carry, out in zip(carries, outs, strict=True):
            if out is carry:
                continue
            if out in used or out in carries or out in consts or out.role != "temporary":
                fresh = ProgramBuffer(f"n{len(self.c.temporaries)}", carry.dtype, carry.shape, "temporary")
                self.c.temporaries.append(fresh)
                copies.append(Copy(fresh, out))
                out = fresh
            used.add(out)
            swaps.append(Swap(carry, out))
        return [*steps, *copies, *swaps]

    def begin(self, carry: Var, atom: Atom) -> None:
        """Fill the buffer of a loop's carry with its first value, unless it has taken over that value's memory."""
        if atom not in self.taken or self.buffers[atom] is not self.buffers[carry]:  # type: ignore[index]
            self.into(self.buffers[carry], atom)

    def _while(self, e: FormEquation, form: Loop, n_cond: int, n_body: int) -> None:
        cond, body = form.bodies
        cond_consts = [self.buffer_of(a) for a in e.inputs[:n_cond]]
        body_consts = [self.buffer_of(a) for a in e.inputs[n_cond : n_cond + n_body]]
        for v, a in zip(e.outputs, e.inputs[n_cond + n_body :], strict=True):
            self.begin(v, a)
        carries = [self.buffers[v] for v in e.outputs]
        cond_steps, (flag,) = self.nested(cond, [*cond_consts, *carries], [False] * (n_cond + len(carries)), [None])
        self.steps.append(WhileLoop(tuple(cond_steps), flag, tuple(self._carry(carries, body, body_consts))))

    def _for(self, e: FormEquation, form: Loop, p: dict[str, Any]) -> None:
        """A counted loop: operands are constants, carries, scanned arrays;
        the body also carries its index, if it is used, and the stacked outputs.
        """
        (body,) = form.bodies
        nk, nc = p["consts"], p["carries"]
        consts = [self.buffer_of(a) for a in (*e.inputs[:nk], *e.inputs[nk + nc :])]
        for v, a in zip(e.outputs, e.inputs[nk : nk + nc], strict=False):
            self.begin(v, a)
        carries = [self.buffers[v] for v in e.outputs]
        if p["counted"]:
            index = self.temporary(Var(ShapedArray((), np.int64)), "i")
            self.into(index, Literal(0, ShapedArray((), np.int64)))
            carries.insert(0, index)
        self.steps.append(CountedLoop(p["count"], tuple(self._carry(carries, body, consts)), p["index"] or "_"))

    def _cond(self, e: FormEquation, form: Loop) -> None:
        flag, *operands = [self.buffer_of(a) for a in e.inputs]
        targets = [self.buffers[v] for v in e.outputs]
        kept = {j: k for j, k in _handed_through(form).items() if targets[j] is operands[k]}
        wanted = [None if j in kept else t for j, t in enumerate(targets)]
        sides: list[Steps] = []
        for body in form.bodies:
            steps, outs = self.nested(body, operands, [k in kept.values() for k in range(len(operands))], wanted, kept)
            # what was made elsewhere is copied when nothing reads the operand any more; in another operand's memory
            # (a branch that exchanges two arrays) it may be overwritten before
            moved = [(t, o) for t, o in zip(targets, outs, strict=True) if o is not t]
            for n, (t, o) in enumerate(moved):
                if o in targets:
                    fresh = ProgramBuffer(f"n{len(self.c.temporaries)}", t.dtype, t.shape, "temporary")
                    self.c.temporaries.append(fresh)
                    steps.append(Copy(fresh, o))
                    moved[n] = t, fresh
            steps += [Copy(t, o) for t, o in moved]
            sides.append(tuple(steps))
        otherwise, then = sides
        self.steps.append(Branch(flag, then, otherwise))


def _around(jaxpr: Jaxpr, binding: Equation) -> tuple[list[Equation], list[Equation]]:
    """The equations that an equation follows from, and all others but it."""
    needed = set(binding.inputs)
    before: list[Equation] = []
    after: list[Equation] = []
    for e in reversed(jaxpr.equations):
        if e is binding:
            continue
        first = not needed.isdisjoint(e.outputs)
        (before if first else after).append(e)
        if first:
            needed.update(e.inputs)
    return before[::-1], after[::-1]


def _in_place_base(g: Group) -> tuple[Var, Var] | None:
    """(result, the base whose memory it may take over) of a group with one update or scatter:
    read by nothing else in the group.
    """
    roots = [e for e in g.equations if isinstance(e.form, (Update, Scatter)) and e.outputs[0] in g.outputs]
    if len(roots) != 1 or not isinstance(roots[0].inputs[0], Var):
        return None
    root, base = roots[0], roots[0].inputs[0]
    if base not in g.inputs or base in root.inputs[1:] or any(base in e.inputs for e in g.equations if e is not root):
        return None
    return None if reads_own_base(root.form) else (root.outputs[0], base)


def _initial(e: FormEquation) -> list[tuple[Var, Var]]:
    """(carry, its first value, whose memory it may take over) of a loop: what the loop does not read otherwise."""
    assert isinstance(e.form, Loop)
    p = dict(e.form.parameters)
    match e.form.kind:
        case "while":
            first, end = p["cond_consts"] + p["body_consts"], len(e.inputs)
        case "for":
            first, end = p["consts"], p["consts"] + p["carries"]
        case _:
            through = {j: e.inputs[1 + k] for j, k in _handed_through(e.form).items()}
            return [
                (e.outputs[j], a) for j, a in through.items() if isinstance(a, Var) and list(e.inputs).count(a) == 1
            ]
    others = {*e.inputs[:first], *e.inputs[end:]}
    return [
        (v, a)
        for v, a in zip(e.outputs, e.inputs[first:end], strict=False)
        if isinstance(a, Var) and a not in others and _alike(v, a)
    ]


def _handed_through(form: Loop) -> dict[int, int]:
    """Outputs of a branch -> the operand each of them is, or is a changed version of, on one side; each once."""
    found: dict[int, int] = {}
    for body in form.bodies:
        for j, out in enumerate(body.outputs):
            k = _stem(body, out)
            if k is not None and j not in found and k not in found.values() and _alike(body.inputs[k], out):
                found[j] = k
    return found


def _stem(jaxpr: Jaxpr, atom: Atom) -> int | None:
    """The input which an output is a changed version of, as updates in place make it."""
    producer = {v: e for e in jaxpr.equations for v in e.outputs}
    while isinstance(atom, Var):
        made = producer.get(atom)
        if made is None:
            return jaxpr.inputs.index(atom)
        if made.primitive.changes_part:
            atom = made.inputs[0]
            continue
        place = made.outputs.index(atom)
        match made.primitive:
            case Cond(branches=branches):
                inner = [k for body in branches if (k := _stem(body, body.outputs[place])) is not None]
                if not inner:
                    return None
                atom = made.inputs[1 + inner[0]]
            case While(cond_consts=tests, body_consts=consts):
                atom = made.inputs[tests + consts + place]
            case CountedLoopPrimitive(consts=consts, carries=carries) if place < carries:
                atom = made.inputs[consts + place]
            case _:
                return None
    return None


def _alike(v: Atom, a: Atom) -> bool:
    """Whether the one may lie in the memory of the other."""
    return same_shape(v.aval.shape, a.aval.shape) and kernel_dtype(v.aval.dtype) == kernel_dtype(a.aval.dtype)


def build_program(jaxpr: Jaxpr, compilation: Compilation) -> Program:
    """The program of a jaxpr."""
    context = _Context(compilation)
    jaxpr = own_outputs(context.written_out(jaxpr))
    inputs = tuple(
        ProgramBuffer(f"in{n}", kernel_dtype(v.aval.dtype), v.aval.shape, "input", layout)
        for n, (v, layout) in enumerate(zip(jaxpr.inputs, compilation.layouts, strict=True))
    )
    outputs = tuple(
        ProgramBuffer(f"out{n}", kernel_dtype(v.aval.dtype), v.aval.shape, "output")
        for n, v in enumerate(jaxpr.outputs)
    )
    checks: tuple[Check, ...] = ()
    if compilation.checked:
        failure = evolve(outputs[-1], name="failure", role="temporary")
        outputs = (*outputs[:-1], failure)
        context.temporaries.append(failure)
        checks = (Check(failure),)
    builder = _Builder(context, dict(zip(jaxpr.inputs, inputs, strict=True)), set())
    targets = {v: b for v, b in zip(jaxpr.outputs, outputs, strict=True) if isinstance(v, Var)}
    steps = builder.build(jaxpr, targets)
    # what was computed before an extent was bound, and changed in place afterwards, lies where it was computed
    steps += [Copy(b, builder.buffers[v]) for v, b in targets.items() if builder.buffers[v] is not b]
    symbols: set[str] = set()
    for v in (*jaxpr.inputs, *(x for e in jaxpr.equations for x in e.outputs)):
        for n in v.aval.shape:
            symbols |= {a for a in n.symbols() if not isinstance(a, Index)} if isinstance(n, Dim) else set()
    results = outputs[: len(outputs) - len(checks)]
    return Program(
        compilation.name, inputs, results, tuple(context.temporaries), (*steps, *checks), tuple(sorted(symbols))
    )
