"""Control flow as functions: fori_loop, while_loop, scan, map, cond, switch."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracejit.api.bodies import (
    Body,
    IndexDecides,
    alike,
    apart,
    as_number,
    carried,
    check_none_mixed,
    in_64_bits,
    is_positive,
    layouts_of,
    leaves_like,
    leaves_of,
    lying,
    own,
    redirected,
    settle,
    settle_layouts,
    strong,
    takes,
)
from tracejit.ir.extents import Dim, DimDependent, Extent, Index, decided_from, is_decided_for_large, same_extent
from tracejit.ir.jaxpr import Jaxpr, Var, symbols_of
from tracejit.ir.ranges import ANYTHING, Range
from tracejit.ir.types import ShapedArray
from tracejit.primitives.branch import Cond
from tracejit.primitives.control_flow import to_flag
from tracejit.primitives.counted_loop import Loop
from tracejit.primitives.while_loop import While
from tracejit.support.config import config
from tracejit.support.errors import DtypeError, Restart, ShapeError, TracerError, UnsupportedError, UserError
from tracejit.support.source import located, raised_at, user_location
from tracejit.support.tree import TreeDef, flatten_like, unflatten
from tracejit.tracer.cell import aval_of_argument
from tracejit.tracer.current import current_trace
from tracejit.tracer.failures import failure_cell
from tracejit.tracer.interpreter import bind, current_interpreter
from tracejit.tracer.layout import UNKNOWN, Layout, same_layout
from tracejit.tracer.mixed import joined, marked, without_mark
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.recorder import recording
from tracejit.tracer.statements.decisions import MOST_APART, Site
from tracejit.tracer.tracer import Tracer

__all__ = [
    "Short",
    "bounded_loop",
    "cond",
    "counted_loop",
    "fori_loop",
    "map",
    "python_integer",
    "scan",
    "switch",
    "while_loop",
]


_NO_OPERAND = object()


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """`for i in range(lower, upper): carry = body(i, carry)`; the carry's structure, shapes and dtypes stay.

    With bounds known while tracing the loop has a derivative in both modes, else it is a while loop.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.fori_loop(0, 5, lambda i, s: s * x + i, np.zeros(2)))(np.array([1.0, 2.0]))
    array([10., 26.])
    """
    check_none_mixed(init)
    body = redirected(body)
    if isinstance(lower, (int, np.integer)) and isinstance(upper, (int, np.integer, Dim)):
        extent: Extent = upper if isinstance(upper, Dim) else builtins.max(0, int(upper) - int(lower))
        if isinstance(upper, Dim):
            extent = upper - int(lower)
        return _with_iterations_apart(int(lower), extent, body, init)

    lower, upper = (python_integer(x, "tj.lax.fori_loop") for x in (lower, upper))

    def test(state: Any) -> Any:
        return state[0] < upper

    def step(state: Any) -> Any:
        return state[0] + 1, body(state[0], state[1])

    return while_loop(test, step, (lower, init))[1]


class Short(Restart):
    """A loop is better written out: what few iterations do with arrays is one kernel then.

    keeps: its body has put something under new names and keys.
    """

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.keeps = keeps


def _is_short(body: Jaxpr, count: Extent) -> bool:
    equations = body.equations
    return (
        isinstance(count, int)
        and count * len(equations) <= config.unroll
        and any(v.aval.shape for e in equations for v in e.outputs)
        and not any(e.primitive.runs_jaxprs for e in equations)
    )


def counted_loop(
    count: Extent,
    body: Callable[[Any, Any], Any],
    init: Any,
    cells: Sequence[Tracer] = (),
    *,
    may_be_short: bool = False,
) -> Any:
    """`for i in range(count): carry = body(i, carry)`, traced once for all iterations.

    cells: arrays from around that it changes, as far as that is known.

    Raises: IndexDecides where these differ, Short if `may_be_short` and it is.
    """

    def once(i: Any, c: Any, _: Any) -> tuple[Any, None]:
        return body(i, c), None

    return _loop(once, init, None, count, reverse=False, cells=cells, may_be_short=may_be_short)[0]


def _with_iterations_apart(lower: int, count: Extent, body: Callable[[Any, Any], Any], carry: Any) -> Any:
    """A counted loop, with those of its first and last iterations written out that differ from the others."""
    first = last = 0
    while not first + last or not same_extent(count, first + last):
        begin = lower + first
        try:
            carry = counted_loop(count - first - last, lambda i, c, k=begin: body(i + k if k else i, c), carry)
            break
        except IndexDecides as error:
            more = error.apart
            if more is None or max(first + more[0], last + more[1]) > MOST_APART:
                raise
            if not count >= first + last + sum(more):
                raise
            for k in builtins.range(more[0]):
                carry = body(begin + k, apart(carry))
            first, last = first + more[0], last + more[1]
    for k in builtins.range(last):
        at = lower + count - last + k
        carry = body(OPERATORS.number_of_extents(at) if isinstance(at, Dim) else at, apart(carry))
    return carry if not last else apart(carry)


def python_integer(x: Any, who: str) -> Any:
    """An end of a range, as Python counts: an integer of a narrow dtype does not turn around.  Raises
    DtypeError or Python's TypeError for what is no integer.
    """
    if not isinstance(x, Tracer):
        return x if isinstance(x, Dim) else in_64_bits(operator.index(x), who)
    if x.shape or x.dtype.kind not in "biu":
        raise DtypeError(
            f"{who} counts in integers, not in a traced array {x.aval}; use x.astype(int)",
            location=user_location(),
        )
    if x.dtype.kind in "iu" and x.aval.weak:
        return x
    if x.dtype == np.uint64:
        OPERATORS.check_number(x, np.dtype(np.int64))
    number = OPERATORS.to_dtype(current_interpreter().fresh(x), np.int64)  # x itself stays a number of NumPy's
    number.weaken()
    return number


def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` over the leading axis of xs; (last carry, stacked ys).   Source: JAX's lax.scan.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda xs: tj.lax.scan(lambda c, x: (c + x, c * x), 0.0, xs)[1])(np.array([1.0, 2.0, 3.0]))
    array([0., 2., 9.])
    """
    check_none_mixed(init)
    leaves, _ = leaves_of(xs)
    shapes = [aval_of_argument(x).shape for x in leaves]
    if not all(shapes):
        raise ShapeError(
            "scan and map go along the leading axis of xs, and one of them is a number; give it as an array of rank 1, "
            "or let f take it from outside",
            location=user_location(),
        )
    extents = [shape[0] for shape in shapes]
    if not extents and length is None:
        raise ShapeError("scan needs xs or length", location=user_location())
    count = extents[0] if extents else int(length)  # type: ignore[arg-type]
    if any(n != count for n in extents) or (length is not None and length != count):
        raise ShapeError(f"scan: leading axes differ: {extents} and length {length}", location=user_location())
    f = redirected(f)
    return _loop(lambda i, c, x: f(c, x), init, xs, count, reverse=reverse)


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f of each element of the leading axis, in order, stacked.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda xs: tj.lax.map(lambda x: x @ x, xs))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([ 5., 25.])
    """
    f = redirected(f)
    return scan(lambda c, x: (c, f(x)), None, xs)[1]


def _loop(
    f: Callable[[Any, Any, Any], Any],
    init: Any,
    xs: Any,
    count: Extent,
    *,
    reverse: bool,
    cells: Sequence[Tracer] = (),
    may_be_short: bool = False,
) -> tuple[Any, Any]:
    inits, init_tree = leaves_of(init)
    weak = [aval_of_argument(x).weak for x in inits]
    rows, xs_tree = leaves_of(xs)
    row_avals = [ShapedArray(aval_of_argument(x).shape[1:], aval_of_argument(x).dtype) for x in rows]
    trees: dict[str, Any] = {}
    layouts = layouts_of(inits)
    index = new_index(count)
    of_rows: list[Layout] = [layout if layout is None else UNKNOWN for layout in layouts_of(rows)]

    def flat(i: Any, *args: Any) -> Any:
        c, x = args[: len(inits)], args[len(inits) :]
        carry, y = f(i, unflatten(init_tree, c), unflatten(xs_tree, x))
        new = alike(leaves_like(carry, init_tree, "loop"), c)
        ys, trees["y"] = leaves_of(y)
        trees["n"] = len(new)
        return [*new, *ys]

    while True:
        avals = [ShapedArray((), np.int64, True), *carried(inits), *row_avals]
        numbers: Range = (0, count - 1) if index is None else (Dim.symbol(index), Dim.symbol(index))
        with _deciding(index):
            body = Body(
                flat,
                avals,
                _with_failures(cells),
                {0: numbers},
                [None, *layouts, *of_rows],
                certain=is_positive(count),
                repeats=may_be_short,
            )
        settled = not settle_layouts(layouts, body.layouts[: len(inits)])
        if not settle(inits, weak, body.out_avals()[: len(inits)]) and settled:
            break
    if may_be_short and _is_short(body.jaxpr, count):
        raise Short(body.keeps)
    # Order of the primitive: captured | i, (carries + cells), rows -> (carries + cells), ys
    j, nk, ncell, nc = body.jaxpr, len(body.constants), len(body.cells), len(inits)
    captured, carried_cells, (i, *rest) = j.inputs[:nk], j.inputs[nk : nk + ncell], j.inputs[nk + ncell :]
    outs = j.outputs
    kept, fixed = _changing(rest[:nc], outs[:nc])
    jaxpr = Jaxpr(
        (*captured, *[rest[k] for k in fixed], i, *carried_cells, *[rest[k] for k in kept], *rest[nc:]),
        j.equations,
        (*outs[body.count :], *[outs[k] for k in kept], *outs[nc : body.count]),
    )
    constants = (*body.constants, *[inits[k] for k in fixed])
    loop = Loop(jaxpr, count, len(constants), ncell + len(kept), reverse, _used(index, jaxpr))
    with _deciding(index):  # rules of derivatives ask, too
        results = bind(loop, *constants, *body.cells, *[inits[k] for k in kept], *rows)
    for k in fixed:  # before the arrays that the body changes have their new values: one of them may be a carry's first
        inits[k] = own(inits[k])
    for cell, new in zip(body.cells, results[:ncell], strict=True):
        cell.assign(new)
    for k, new in zip(kept, results[ncell:], strict=False):
        inits[k] = as_number(lying(new, layouts[k]), weak[k])
    return unflatten(init_tree, inits), unflatten(trees["y"], results[ncell + len(kept) :])


@contextmanager
def _deciding(index: Index | None) -> Generator[None]:
    """What is decided in the block may depend on the index of a loop.  Raises: IndexDecides, DimDependent."""
    try:
        yield
    except DimDependent as decision:
        if index is None or index not in decision.symbols:
            raise
        with located(raised_at(decision)):
            raise _of_the_index(decision, index) from None


def _of_the_index(decision: DimDependent, index: Index) -> DimDependent | IndexDecides:
    """What a decision that depends on the index of a loop is up to: the sizes of the arguments, where these tell."""
    sizes = any(not isinstance(s, Index) for s in decision.symbols)
    if decision.difference is None:
        return decision if sizes else IndexDecides(None)
    if sizes and is_decided_for_large(decision.difference):
        return decision
    found = decided_from(decision.difference, index)
    return decision if sizes and found is None else IndexDecides(found)


def _with_failures(cells: Sequence[Tracer]) -> list[Tracer]:
    """The arrays that the body of a loop may change, and what says whether the program has failed, which it may too."""
    failure = failure_cell() if recording() is not None else None
    return [*cells, failure] if isinstance(failure, Tracer) else [*cells]


def new_index(count: Extent) -> Index | None:
    """The symbol of a loop's index; None where no program is recorded."""
    trace = current_trace()
    if trace is None or recording() is None or (isinstance(count, int) and count <= 1):
        return None
    trace.loops.indices += 1
    return Index(trace.loops.indices, count - 1)


def _used(index: Index | None, body: Jaxpr) -> Index | None:
    """The index of a loop, if it is in an extent of the body.  Raises: TracerError where such an array outlives it."""
    if index is None or not index.used or index not in symbols_of(body):
        return None
    for v in (*body.inputs, *body.outputs):
        if any(isinstance(n, Dim) and index in n.symbols() for n in v.aval.shape):
            raise TracerError(
                "an array as long as the index of a loop is used after its iteration", location=user_location()
            )
    return index


def _changing(inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The carries that a body changes, and those it hands on as they are: no iteration has to copy these."""
    kept = [k for k, (before, after) in enumerate(zip(inputs, outputs, strict=True)) if after is not before]
    return kept, [k for k in builtins.range(len(inputs)) if k not in kept]


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """`while cond_fun(carry): carry = body_fun(carry)`.   Source: JAX's lax.while_loop.

    >>> import numpy as np, tracejit as tj
    >>> halve = tj.jit(lambda x: tj.lax.while_loop(lambda x: np.max(x) > 1, lambda x: x / 2, x))
    >>> halve(np.array([3.0, 10.0]))
    array([0.1875, 0.625 ])
    """
    check_none_mixed(init_val)
    return bounded_loop(redirected(cond_fun), redirected(body_fun), init_val, None)


def bounded_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    most: Extent | None,
    cells: Sequence[Tracer] = (),
    counted: Site | None = None,
    *,
    counter: Range = ANYTHING,
) -> Any:
    """`while cond_fun(carry): carry = body_fun(carry)`, of so many iterations at most, if that is known.

    counter: between which integers the first carry lies where an iteration begins.
    cells: arrays from around that it changes, as far as that is known.  counted: the `for` that it is of, if a trace
    that starts again can count its iterations.
    """
    inits, tree = leaves_of(init_val)
    weak = [aval_of_argument(x).weak for x in inits]
    layouts = layouts_of(inits)

    def step(*c: Any) -> Any:
        return alike(leaves_like(body_fun(unflatten(tree, c)), tree, "while_loop"), c)

    while True:
        avals = carried(inits)
        body = Body(step, avals, _with_failures(cells), {0: counter} if counter != ANYTHING else {}, layouts)
        settled = not settle_layouts(layouts, body.layouts)
        if not settle(inits, weak, body.out_avals()) and settled:
            break

    failure: Any = failure_cell()

    def test(*c: Any) -> Any:
        flag = without_mark(to_flag(cond_fun(unflatten(tree, c))))  # whose it is does not matter
        # After a failure the carry is anything, and perhaps the end never comes.
        return [flag & (failure == 0)] if may_fail else [flag]

    # What failed before the loop may be what it waits for.
    may_fail = any(cell is failure for cell in body.cells) or (most is None and failure is not None)
    condition = Body(test, avals, body.cells, layouts=layouts, certain=True, as_given=True)
    changed = _changed_cells(condition)
    if changed:
        failure = failure_cell()
        if any(cell is not failure for cell in changed):
            raise TracerError("while_loop: the condition changes an array in place", location=user_location())
        return _tested_in_its_body(cond_fun, body_fun, init_val, most)
    cj, bj, ncell = condition.jaxpr, body.jaxpr, len(body.cells)
    nk, nb, nc = len(condition.constants), len(body.constants), len(inits)
    kept, fixed = _changing(bj.inputs[nb + ncell :], bj.outputs[:nc])

    def arranged(inputs: Sequence[Any], n: int) -> tuple[Any, ...]:
        changed, carried = inputs[n : n + ncell], inputs[n + ncell :]
        return (*inputs[:n], *[carried[k] for k in fixed], *changed, *[carried[k] for k in kept])

    cond_jaxpr = Jaxpr(arranged(cj.inputs, nk), cj.equations, cj.outputs[:1])
    body_jaxpr = Jaxpr(arranged(bj.inputs, nb), bj.equations, (*bj.outputs[nc:], *[bj.outputs[k] for k in kept]))
    constant = [inits[k] for k in fixed]
    results = bind(
        While(cond_jaxpr, body_jaxpr, nk + len(fixed), nb + len(fixed), most=most, counted=counted),
        *condition.constants, *constant, *body.constants, *constant, *body.cells,
        *[inits[k] for k in kept],
    )  # fmt: skip
    for k in fixed:  # before the arrays that the body changes have their new values: one of them may be a carry's first
        inits[k] = own(inits[k])
    for cell, new in zip(body.cells, results[:ncell], strict=True):
        cell.assign(new)
    for k, new in zip(kept, results[ncell:], strict=True):
        inits[k] = as_number(lying(new, layouts[k]), weak[k])
    return unflatten(tree, inits)


def _changed_cells(body: Body) -> list[Tracer]:
    """The arrays from outside that a body gives new values."""
    n, k = len(body.constants), len(body.cells)
    pairs = zip(body.cells, body.jaxpr.inputs[n : n + k], body.jaxpr.outputs[body.count :], strict=True)
    return [cell for cell, before, after in pairs if after is not before]


def _tested_in_its_body(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any, most: Extent | None
) -> Any:
    """The loop with its condition carried: one that can fail is computed where failures are carried,
    before the loop and in the body.
    """

    def step(state: Any) -> Any:
        new = body_fun(state[1])
        return without_mark(to_flag(cond_fun(new))), new

    return bounded_loop(lambda state: state[0], step, (without_mark(to_flag(cond_fun(init))), init), most)[1]


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NO_OPERAND,
) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`; only the branch taken runs.   Source: JAX's lax.cond.

    operand: one operand by name, in place of `operands`.

    >>> import numpy as np, tracejit as tj
    >>> f = tj.jit(lambda x: tj.lax.cond(np.sum(x) > 0, lambda x: 2 * x, lambda x: -x, x))
    >>> f(np.array([1.0, 2.0])), f(np.array([-1.0, -2.0]))
    (array([2., 4.]), array([1., 2.]))
    """
    if operand is not _NO_OPERAND:
        if operands:
            raise UserError("cond: operands are given by place, or one by name (operand=)", location=user_location())
        operands = (operand,)
    if not isinstance(pred, Tracer):
        return apart((true_fun if pred else false_fun)(*apart(operands)))
    check_none_mixed(operands)
    leaves, tree = leaves_of(operands)
    layouts = layouts_of(leaves)
    avals = carried(leaves)
    functions: list[Callable[..., Any]] = [lambda *a, f=f: f(*unflatten(tree, a)) for f in (false_fun, true_fun)]
    bodies = _branches(functions, avals, layouts)
    no, yes = (b.tree for b in bodies)
    assert no is not None and yes is not None
    if no != yes:  # perhaps dicts whose keys were inserted in another order
        if flatten_like(unflatten(no, builtins.range(no.leaves)), yes) is None:
            why = f"cond: the branches return different structures ({yes} and {no})"
            if ("None" in str(yes)) is not ("None" in str(no)):
                why += "; what is None on one side alone needs a name of its own (least, best = np.inf, None)"
            raise TracerError(why, location=user_location())
        functions[0] = functools.partial(_reordered, functions[0], yes)
        bodies = _branches(functions, avals, layouts)
    bodies = _reconcile(bodies, functions, avals, layouts)
    count = bodies[0].count
    mixed = [
        k
        for k, (a, b, found) in enumerate(zip(bodies[0].pythons, bodies[1].pythons, bodies[0].out_avals(), strict=True))
        if not found.shape and found.dtype.kind in "iub" and (a is None or joined(a, b))
    ]
    for b in bodies:
        b.flags_of(mixed)
    cells = list({id(c): c for b in bodies for c, _ in b.staged.outer_cells}.values())
    jaxprs, captured = _joined(bodies, cells)
    results = bind(Cond(jaxprs), to_flag(pred), *captured, *leaves)
    for cell, new in zip(cells, results[count + len(mixed) :], strict=True):
        cell.assign(new)
    lies = [a if same_layout(a, b) else UNKNOWN for a, b in zip(bodies[0].layouts, bodies[1].layouts, strict=True)]
    numbers = [a.weak and b.weak for a, b in zip(bodies[0].out_avals(), bodies[1].out_avals(), strict=True)]
    made = [as_number(lying(x, layout), w) for x, layout, w in zip(results[:count], lies, numbers, strict=True)]
    for k, is_python in zip(mixed, results[count:], strict=False):
        made[k] = marked(made[k], is_python)
    return unflatten(yes, made)


def _branches(
    functions: Sequence[Callable[..., Any]], avals: Sequence[ShapedArray], layouts: Sequence[Layout]
) -> list[Body]:
    """The staged branches."""
    return [Body(f, avals, layouts=layouts, once=True, flagged=True) for f in functions]


def _joined(bodies: Sequence[Body], cells: Sequence[Tracer]) -> tuple[tuple[Jaxpr, Jaxpr], list[Any]]:
    """The jaxprs of two branches of the same inputs, (captured ..., arguments ...), and what is captured.  The outputs
    of both end in new values of the cells that either changes.
    """
    values: dict[Any, Any] = {}  # by identity: what is captured
    inputs: list[dict[Any, Var]] = [{}, {}]
    for b, mine in zip(bodies, inputs, strict=True):
        for value, var in zip(b.constants, b.jaxpr.inputs, strict=False):
            key = (id(value.interpreter), id(value.value)) if isinstance(value, Tracer) else id(value)
            values.setdefault(key, value)
            if mine.setdefault(key, var) is not var:  # captured under two names
                key = key, id(var)
                values[key], mine[key] = value, var
    after: list[list[Any]] = []
    for b, mine in zip(bodies, inputs, strict=True):
        known = {id(c): var for c, var in b.staged.captured_cells} | {id(c): new for c, new in b.staged.outer_cells}
        for c in cells:
            if id(c) not in known:
                values[id(c), "cell"] = c
                mine[id(c), "cell"] = known[id(c)] = Var(c.aval.strong())
        after.append([known[id(c)] for c in cells])
    jaxprs: list[Jaxpr] = []
    for b, mine, new in zip(bodies, inputs, after, strict=True):
        first = [mine[key] if key in mine else Var(aval_of_argument(value)) for key, value in values.items()]
        rest = b.jaxpr.inputs[len(b.constants) :]
        jaxprs.append(Jaxpr((*first, *rest), b.jaxpr.equations, (*b.jaxpr.outputs, *new)))
    return (jaxprs[0], jaxprs[1]), list(values.values())


def _reordered(function: Callable[..., Any], wanted: TreeDef, *args: Any) -> Any:
    return unflatten(wanted, leaves_like(function(*args), wanted, "cond"))


def _reconcile(
    bodies: list[Body],
    functions: list[Any],
    avals: Sequence[ShapedArray],
    layouts: Sequence[Layout],
) -> list[Body]:
    """Python numbers returned by one branch take the dtype of the other's array;
    of an integer and a float the former becomes one.
    """
    no, yes = bodies[0].out_avals(), bodies[1].out_avals()

    def common(a: ShapedArray, b: ShapedArray) -> ShapedArray | None:
        if a.weak and b.weak and (a.dtype == np.bool_) != (b.dtype == np.bool_):
            return None  # True is not 1, where it is printed
        if a.weak == b.weak:
            return (
                a if a.dtype == b.dtype else ShapedArray((), np.result_type(a.dtype, b.dtype), True) if a.weak else None
            )
        array, number = (b, a) if a.weak else (a, b)
        if number.dtype == np.bool_ and array.dtype != np.bool_:
            return None
        return array.strong() if takes(array, number) else None

    want = [common(a, b) for a, b in zip(no, yes, strict=True)]
    if all(w is None or a.dtype == b.dtype == w.dtype for w, a, b in zip(want, no, yes, strict=True)):
        return bodies

    def converted(*results: Any) -> list[Any]:
        return [x if w is None else as_number(strong(x, w.dtype), w.weak) for x, w in zip(results, want, strict=True)]

    return [
        b if b.convert(converted) else Body(f, avals, layouts=layouts, once=True, converted=converted, flagged=True)
        for b, f in zip(bodies, functions, strict=True)
    ]


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, the index clamped; only that branch runs.

    >>> import numpy as np, tracejit as tj
    >>> f = tj.jit(lambda i, x: tj.lax.switch(i, [np.sin, np.cos, lambda x: x * 10], x))
    >>> f(2, np.ones(2)), f(1, np.zeros(2))
    (array([10., 10.]), array([1., 1.]))
    """
    if not branches:
        raise UnsupportedError("switch needs at least one branch", location=user_location())
    if not isinstance(index, Tracer):
        return apart(branches[builtins.min(builtins.max(int(index), 0), len(branches) - 1)](*apart(operands)))
    number: Any = index

    def choose(k: int) -> Callable[..., Any]:
        if k == len(branches) - 1:
            return branches[k]
        return lambda *args: cond(number <= k, branches[k], choose(k + 1), *args)

    return choose(0)(*operands)
