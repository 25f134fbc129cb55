"""Control flow as functions: fori_loop, while_loop, scan, cond, switch, map;
and `range`, a loop whose body is traced once.

Bodies are traced on fresh arrays.  Arrays of the surrounding function that a body changes in place become further
carries.
"""

from __future__ import annotations

import builtins
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tracejit.ir.jaxpr import Equation, Jaxpr, Literal, Var
from tracejit.ir.ranges import Range
from tracejit.ir.text import print_jaxpr
from tracejit.ir.types import Dim, Extent, ShapedArray
from tracejit.primitives.comparison import Lt
from tracejit.primitives.control_flow import Cond, Loop, While, to_flag
from tracejit.primitives.elementwise import Add
from tracejit.support.errors import DtypeError, ShapeError, TracerError, UnsupportedError
from tracejit.support.source import user_location
from tracejit.support.tree import TreeDef, flatten, flatten_like, unflatten
from tracejit.tracer.bytecode import bound_first, carried_names, iterates_directly, target_of, yields_within
from tracejit.tracer.failures import failure_cell
from tracejit.tracer.interpreter import Interpreter, bind, current_interpreter, eager, use_interpreter
from tracejit.tracer.layout import UNKNOWN, Layout, same_layout
from tracejit.tracer.operators import OPERATORS
from tracejit.tracer.python_state import PythonState
from tracejit.tracer.redirect import prepared
from tracejit.tracer.stage import ChangedLater, Staged, StageInterpreter, aval_of_argument, stage
from tracejit.tracer.tracer import Tracer

__all__ = ["apart", "cond", "fori_loop", "map", "range", "scan", "switch", "while_loop"]


def _leaves(tree: Any) -> tuple[list[Any], TreeDef]:
    leaves, treedef = flatten(tree)
    return [_array(x) for x in leaves], treedef


def _array(x: Any) -> Any:
    return x if isinstance(x, (Tracer, np.ndarray, np.generic, bool, int, float)) else np.asarray(x)


def apart(tree: Any) -> Any:
    """A tree with arrays of their own in place of its arrays: what a body changes or returns is no array
    of its surroundings.
    """
    leaves, treedef = flatten(tree)
    return unflatten(treedef, [_own(x) for x in leaves])


def _own(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return np.array(x, order="K")
    if not isinstance(x, Tracer):
        return x
    made = current_interpreter().fresh(x)
    made.layout = OPERATORS.layout_of_copy(x)
    return made


def _redirected(function: Callable[..., Any]) -> Callable[..., Any]:
    """A body as it is traced: outside of a trace nobody has redirected it yet,
    and its changes of outer arrays would happen once.
    """
    return prepared(function) if current_interpreter() is eager else function


def _layouts(leaves: Sequence[Any]) -> list[Layout]:
    """How arrays lie that are handed into or out of a body: as copies of them."""
    return [OPERATORS.layout_of_copy(x) if isinstance(x, (Tracer, np.ndarray)) else None for x in leaves]


def _lying(x: Any, layout: Layout) -> Any:
    """A result, whose layout is known; without a trace one of rank 0 is a NumPy scalar,
    as compiled functions give it.
    """
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    if isinstance(x, Tracer):
        x.layout = layout
    return x


class _Body:
    """A staged body: jaxpr over (captured values, changed outer arrays, arguments)."""

    def __init__(
        self,
        function: Callable[..., Any],
        avals: Sequence[ShapedArray],
        cells: Sequence[Tracer] = (),
        ranges: Mapping[int, Range] | None = None,
        layouts: Sequence[Layout] = (),
        *,
        certain: bool = False,
    ) -> None:
        self.tree: TreeDef | None = None
        self.layouts: list[Layout] = []  # of the results
        self.weak: list[bool] = []  # which of them are Python numbers
        cells = list(cells)
        held = PythonState((function,))
        while True:

            def flat(*tracers: Any) -> Sequence[Any]:
                result, self.tree = _leaves(function(*tracers))
                self.layouts = _layouts(result)
                self.weak = [aval_of_argument(x).weak for x in result]
                return result

            staged: Staged = stage(
                flat, avals, own_changes=True, cells=cells, ranges=ranges, layouts=layouts, certain=certain
            )
            # of each: two may cancel out
            held.check("the function of a tj.lax loop or branch", "return the value as part of the state")
            if not staged.outer_cells:
                break
            cells += [c for c, _ in staged.outer_cells]
        self.cells = cells
        self.staged = staged
        self.count = len(staged.jaxpr.outputs) - len(cells)
        n, k = len(avals), len(cells)
        inputs = staged.jaxpr.inputs
        # Inputs come as arguments, cells, captured; kernels of loops want captured, then cells, then arguments.
        self.jaxpr = Jaxpr(
            (*inputs[n + k :], *inputs[n : n + k], *inputs[:n]), staged.jaxpr.equations, staged.jaxpr.outputs
        )

    def out_avals(self) -> tuple[ShapedArray, ...]:
        """Of the results: a Python number is known by its traced value, not by what the program computes."""
        return tuple(
            [
                ShapedArray(a.shape, a.dtype, w)
                for a, w in zip(self.jaxpr.out_avals[: self.count], self.weak, strict=True)
            ]
        )


def _strong(x: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """A carry with a dtype of its own."""
    aval = aval_of_argument(x)
    if dtype is None and not aval.weak:
        return x
    want = aval.dtype if dtype is None else dtype
    return OPERATORS.to_dtype(x, want)


def _settle(inits: list[Any], weak: list[bool], outs: Sequence[ShapedArray]) -> bool:
    """Carries that came as Python numbers become what the body makes of them, a number or of a dtype that holds them;
    whether one changed.
    """
    changed = False
    for k, (x, w, o) in enumerate(zip(inits, weak, outs, strict=True)):
        if w and _takes(o, aval_of_argument(x)) and (aval_of_argument(x).dtype != o.dtype or not o.weak):
            x = _strong(x, o.dtype)
            if o.weak:
                x = x.as_python_number() if isinstance(x, Tracer) else x.item()
            inits[k], weak[k], changed = x, o.weak, True
    return changed


def _takes(into: ShapedArray, number: ShapedArray) -> bool:
    """Whether a Python number of a kind, known or not, may become of a dtype: as in NumPy, a float does not become an
    integer, nor an integer a bool.
    """
    kinds = "b", "iu", "f"
    wide, narrow = (next(n for n, kind in enumerate(kinds) if a.dtype.kind in kind) for a in (into, number))
    return narrow <= wide


def _number(x: Any, weak: bool) -> Any:
    """A loop's result, as a Python number if its carry is one."""
    if not weak:
        return x
    return x.as_python_number() if isinstance(x, Tracer) else np.asarray(x).item()


def _carried(inits: Sequence[Any]) -> list[ShapedArray]:
    """What a body gets: Python numbers stay such as long as it makes nothing else of them."""
    return [aval_of_argument(x) for x in inits]


def _leaves_like(tree: Any, wanted: TreeDef, what: str) -> list[Any]:
    """The leaves of what a body returns, in the order of what it was given."""
    leaves = flatten_like(tree, wanted)
    if leaves is None:
        raise TracerError(
            f"{what}: the body returns another structure than it was given ({flatten(tree)[1]} instead of {wanted})",
            location=user_location(),
        )
    return [_array(x) for x in leaves]


def _settle_layouts(layouts: list[Layout], outs: Sequence[Layout]) -> bool:
    """Carries that a body lays out in another way than it got them have no known layout;
    whether there is a new one of these.
    """
    odd = [k for k, (a, b) in enumerate(zip(layouts, outs, strict=False)) if a is not UNKNOWN and not same_layout(a, b)]
    for k in odd:
        layouts[k] = UNKNOWN
    return bool(odd)


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """`for i in range(lower, upper): carry = body(i, carry)`; the carry's structure, shapes and dtypes stay.

    With bounds known while tracing the loop has a derivative in both modes, else it is a while loop.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda x: tj.lax.fori_loop(0, 5, lambda i, s: s * x + i, np.zeros(2)))(np.array([1.0, 2.0]))
    array([10., 26.])
    """
    body = _redirected(body)
    if isinstance(lower, (int, np.integer)) and isinstance(upper, (int, np.integer, Dim)):
        extent: Extent = upper if isinstance(upper, Dim) else builtins.max(0, int(upper) - int(lower))
        if isinstance(upper, Dim):
            extent = upper - int(lower)
        first = int(lower)
        carry, _ = _loop(lambda i, c, _: (body(i + first if first else i, c), None), init, None, extent, reverse=False)
        return carry

    def test(state: Any) -> Any:
        return state[0] < upper

    def step(state: Any) -> Any:
        return state[0] + 1, body(state[0], state[1])

    return while_loop(test, step, (lower, init))[1]


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
    leaves, _ = _leaves(xs)
    extents = [aval_of_argument(x).shape[0] for x in leaves]
    if not extents and length is None:
        raise ShapeError("scan needs xs or length", location=user_location())
    count = extents[0] if extents else int(length)  # type: ignore[arg-type]
    if any(n != count for n in extents) or (length is not None and length != count):
        raise ShapeError(f"scan: leading axes differ: {extents} and length {length}", location=user_location())
    f = _redirected(f)
    return _loop(lambda i, c, x: f(c, x), init, xs, count, reverse=reverse)


def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f of each element of the leading axis, in order, stacked.

    >>> import numpy as np, tracejit as tj
    >>> tj.jit(lambda xs: tj.lax.map(lambda x: x @ x, xs))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([ 5., 25.])
    """
    f = _redirected(f)
    return scan(lambda c, x: (c, f(x)), None, xs)[1]


def _loop(f: Callable[[Any, Any, Any], Any], init: Any, xs: Any, count: Extent, *, reverse: bool) -> tuple[Any, Any]:
    inits, init_tree = _leaves(init)
    weak = [aval_of_argument(x).weak for x in inits]
    rows, xs_tree = _leaves(xs)
    row_avals = [ShapedArray(aval_of_argument(x).shape[1:], aval_of_argument(x).dtype) for x in rows]
    trees: dict[str, Any] = {}
    layouts = _layouts(inits)
    of_rows: list[Layout] = [layout if layout is None else UNKNOWN for layout in _layouts(rows)]

    def flat(i: Any, *args: Any) -> Any:
        c, x = args[: len(inits)], args[len(inits) :]
        carry, y = f(i, unflatten(init_tree, c), unflatten(xs_tree, x))
        new = _leaves_like(carry, init_tree, "loop")
        ys, trees["y"] = _leaves(y)
        trees["n"] = len(new)
        return [*new, *ys]

    while True:
        avals = [ShapedArray((), np.int64, True), *_carried(inits), *row_avals]
        body = _Body(
            flat, avals, ranges={0: (0, count - 1)}, layouts=[None, *layouts, *of_rows], certain=_is_positive(count)
        )
        settled = not _settle_layouts(layouts, body.layouts[: len(inits)])
        if not _settle(inits, weak, body.out_avals()[: len(inits)]) and settled:
            break
    # Order of the primitive: captured | i, (carries + cells), rows -> (carries + cells), ys
    j, nk, ncell, nc = body.jaxpr, len(body.staged.constants), len(body.cells), len(inits)
    captured, cells, (i, *rest) = j.inputs[:nk], j.inputs[nk : nk + ncell], j.inputs[nk + ncell :]
    outs = j.outputs
    kept, fixed = _changing(rest[:nc], outs[:nc])
    jaxpr = Jaxpr(
        (*captured, *[rest[k] for k in fixed], i, *cells, *[rest[k] for k in kept], *rest[nc:]),
        j.equations,
        (*outs[body.count :], *[outs[k] for k in kept], *outs[nc : body.count]),
    )
    constants = (*body.staged.constants, *[inits[k] for k in fixed])
    results = bind(
        Loop(jaxpr, count, len(constants), ncell + len(kept), reverse),
        *constants,
        *body.cells,
        *[inits[k] for k in kept],
        *rows,
    )
    for k in fixed:  # before the arrays that the body changes have their new values: one of them may be a carry's first
        inits[k] = _own(inits[k])
    for cell, new in zip(body.cells, results[:ncell], strict=True):
        cell.assign(new)
    for k, new in zip(kept, results[ncell:], strict=False):
        inits[k] = _number(_lying(new, layouts[k]), weak[k])
    return unflatten(init_tree, inits), unflatten(trees["y"], results[ncell + len(kept) :])


def _is_positive(count: Extent | None) -> bool:
    """Whether a loop surely has an iteration."""
    return isinstance(count, int) and count > 0


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
    cond_fun, body_fun = _redirected(cond_fun), _redirected(body_fun)
    inits, tree = _leaves(init_val)
    weak = [aval_of_argument(x).weak for x in inits]
    layouts = _layouts(inits)

    def step(*c: Any) -> Any:
        return _leaves_like(body_fun(unflatten(tree, c)), tree, "while_loop")

    while True:
        avals = _carried(inits)
        body = _Body(step, avals, layouts=layouts)
        settled = not _settle_layouts(layouts, body.layouts)
        if not _settle(inits, weak, body.out_avals()) and settled:
            break

    failure: Any = failure_cell()

    def test(*c: Any) -> Any:
        flag = to_flag(cond_fun(unflatten(tree, c)))
        # After a failure the carry is anything, and perhaps the end never comes.
        return [flag & (failure == 0)] if may_fail else [flag]

    may_fail = any(cell is failure for cell in body.cells)
    condition = _Body(test, avals, body.cells, layouts=layouts, certain=True)
    changed = _changed_cells(condition)
    if changed:
        failure = failure_cell()
        if any(cell is not failure for cell in changed):
            raise TracerError("while_loop: the condition changes an array in place", location=user_location())
        return _tested_in_its_body(cond_fun, body_fun, init_val)
    cj, bj, ncell = condition.jaxpr, body.jaxpr, len(body.cells)
    nk, nb, nc = len(condition.staged.constants), len(body.staged.constants), len(inits)
    kept, fixed = _changing(bj.inputs[nb + ncell :], bj.outputs[:nc])

    def arranged(inputs: Sequence[Any], n: int) -> tuple[Any, ...]:
        changed, carried = inputs[n : n + ncell], inputs[n + ncell :]
        return (*inputs[:n], *[carried[k] for k in fixed], *changed, *[carried[k] for k in kept])

    cond_jaxpr = Jaxpr(arranged(cj.inputs, nk), cj.equations, cj.outputs[:1])
    body_jaxpr = Jaxpr(arranged(bj.inputs, nb), bj.equations, (*bj.outputs[nc:], *[bj.outputs[k] for k in kept]))
    constant = [inits[k] for k in fixed]
    results = bind(
        While(cond_jaxpr, body_jaxpr, nk + len(fixed), nb + len(fixed)),
        *condition.staged.constants, *constant, *body.staged.constants, *constant, *body.cells,
        *[inits[k] for k in kept],
    )  # fmt: skip
    for k in fixed:  # before the arrays that the body changes have their new values: one of them may be a carry's first
        inits[k] = _own(inits[k])
    for cell, new in zip(body.cells, results[:ncell], strict=True):
        cell.assign(new)
    for k, new in zip(kept, results[ncell:], strict=True):
        inits[k] = _number(_lying(new, layouts[k]), weak[k])
    return unflatten(tree, inits)


def _changed_cells(body: _Body) -> list[Tracer]:
    """The arrays from outside that a body gives new values."""
    n, k = len(body.staged.constants), len(body.cells)
    pairs = zip(body.cells, body.jaxpr.inputs[n : n + k], body.jaxpr.outputs[body.count :], strict=True)
    return [cell for cell, before, after in pairs if after is not before]


def _tested_in_its_body(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """The loop with its condition carried: one that can fail is computed where failures are carried,
    before the loop and in the body.
    """

    def step(state: Any) -> Any:
        new = body_fun(state[1])
        return to_flag(cond_fun(new)), new

    return while_loop(lambda state: state[0], step, (to_flag(cond_fun(init)), init))[1]


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`; only the branch taken runs.   Source: JAX's lax.cond.

    >>> import numpy as np, tracejit as tj
    >>> f = tj.jit(lambda x: tj.lax.cond(np.sum(x) > 0, lambda x: 2 * x, lambda x: -x, x))
    >>> f(np.array([1.0, 2.0])), f(np.array([-1.0, -2.0]))
    (array([2., 4.]), array([1., 2.]))
    """
    if not isinstance(pred, Tracer):
        return apart((true_fun if pred else false_fun)(*apart(operands)))
    leaves, tree = _leaves(operands)
    layouts = _layouts(leaves)
    avals = _carried(leaves)
    functions: list[Callable[..., Any]] = [lambda *a, f=f: f(*unflatten(tree, a)) for f in (false_fun, true_fun)]
    bodies = _branches(functions, avals, layouts)
    no, yes = (b.tree for b in bodies)
    assert no is not None and yes is not None
    if no != yes:  # perhaps dicts whose keys were inserted in another order
        if flatten_like(unflatten(no, builtins.range(no.leaves)), yes) is None:
            raise TracerError(
                f"cond: the branches return different structures ({yes} and {no})", location=user_location()
            )
        functions[0] = functools.partial(_reordered, functions[0], yes)
        bodies = _branches(functions, avals, layouts)
    bodies = _reconcile(bodies, functions, avals, layouts)
    constants = [c for b in bodies for c in b.staged.constants]
    jaxprs: list[Jaxpr] = []
    for which, b in enumerate(bodies):
        own = b.jaxpr.inputs[: len(b.staged.constants)]
        other = bodies[1 - which].jaxpr.inputs[: len(bodies[1 - which].staged.constants)]
        captured = (*own, *other) if which == 0 else (*other, *own)
        jaxprs.append(Jaxpr((*captured, *b.jaxpr.inputs[len(own) :]), b.jaxpr.equations, b.jaxpr.outputs))
    results = bind(Cond((jaxprs[0], jaxprs[1])), to_flag(pred), *constants, *bodies[0].cells, *leaves)
    count = bodies[0].count
    for cell, new in zip(bodies[0].cells, results[count:], strict=True):
        cell.assign(new)
    lies = [a if same_layout(a, b) else UNKNOWN for a, b in zip(bodies[0].layouts, bodies[1].layouts, strict=True)]
    numbers = [a.weak and b.weak for a, b in zip(bodies[0].out_avals(), bodies[1].out_avals(), strict=True)]
    return unflatten(
        yes, [_number(_lying(x, layout), w) for x, layout, w in zip(results[:count], lies, numbers, strict=True)]
    )


def _branches(
    functions: Sequence[Callable[..., Any]], avals: Sequence[ShapedArray], layouts: Sequence[Layout]
) -> list[_Body]:
    """The staged branches, which share their outputs: what either of them changes outside, both have, in one order."""
    cells: list[Tracer] = []
    while True:
        bodies = [_Body(f, avals, cells, layouts=layouts) for f in functions]
        union = list({id(c): c for b in bodies for c in b.cells}.values())
        if all([id(c) for c in b.cells] == [id(c) for c in union] for b in bodies):
            return bodies
        cells = union


def _reordered(function: Callable[..., Any], wanted: TreeDef, *args: Any) -> Any:
    return unflatten(wanted, _leaves_like(function(*args), wanted, "cond"))


def _reconcile(
    bodies: list[_Body],
    functions: list[Any],
    avals: Sequence[ShapedArray],
    layouts: Sequence[Layout],
) -> list[_Body]:
    """Python numbers returned by one branch take the dtype of the other's array;
    of an integer and a float the former becomes one.
    """
    no, yes = bodies[0].out_avals(), bodies[1].out_avals()

    def common(a: ShapedArray, b: ShapedArray) -> ShapedArray | None:
        if a.weak == b.weak:
            return (
                a if a.dtype == b.dtype else ShapedArray((), np.result_type(a.dtype, b.dtype), True) if a.weak else None
            )
        array, number = (b, a) if a.weak else (a, b)
        return array.strong() if _takes(array, number) else None

    want = [common(a, b) for a, b in zip(no, yes, strict=True)]
    if all(w is None or a.dtype == b.dtype == w.dtype for w, a, b in zip(want, no, yes, strict=True)):
        return bodies

    def converted(f: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            leaves, tree = _leaves(f(*args))
            return unflatten(
                tree,
                [x if w is None else _number(_strong(x, w.dtype), w.weak) for x, w in zip(leaves, want, strict=True)],
            )

        return run

    return _branches([converted(f) for f in functions], avals, layouts)


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


def range(*bounds: Any) -> Any:
    """`for i in tj.range(n)`: a loop whose body is traced once and stays a loop.  Outside
    of a trace it is Python's range.

    The body works on arrays in place; what it binds anew or changes in Python's objects (a counter, two attributes that
    swap their arrays) would not be carried to the next iteration and is refused.  Bounds may depend on data
    (`tj.range(i)` in a loop over i): such a loop has a forward-mode derivative only.

    >>> import numpy as np, tracejit as tj
    >>> @tj.jit
    ... def fibonacci(n):
    ...     pair = np.array([0, 1])
    ...     for i in tj.range(n):
    ...         pair[:] = pair[::-1] + np.array([0, 1]) * pair
    ...     return pair[0]
    >>> [int(fibonacci(n)) for n in (1, 5, 10)]
    [1, 5, 55]
    """
    if _recorded(current_interpreter()) is None:
        return builtins.range(*[operator.index(b) for b in bounds])
    return _Range(bounds)


class _Range:
    """What `range` is in a trace: for the head of a `for` statement only, which runs its body once."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: tuple[Any, ...]) -> None:
        self.bounds = bounds

    def __iter__(self) -> Iterator[Any]:
        if not iterates_directly(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            raise TracerError(
                "tj.range is iterated over by something else than a for statement (zip, enumerate, list, ...), which "
                "would take its one "
                "traced iteration for all of them; write `for i in tj.range(n)` and index with i (x[i] for each x of "
                "a zip), or use "
                "Python's range",
                location=user_location(),
            )
        return _iterations(self.bounds)

    def __reversed__(self) -> _Range:
        start, stop, step = _range_bounds(self.bounds)
        count = _trip_count(start, stop, step)
        if count is None:
            raise TypeError(
                "a tj.range whose bounds depend on data cannot be reversed; count upwards and index with n - 1 - i"
            )
        return _Range((start + (count - 1) * step, start - step, -step))

    def __len__(self) -> int:
        count = _trip_count(*_range_bounds(self.bounds))
        if count is None:
            raise TypeError("the length of a tj.range whose bounds depend on data is not known while tracing")
        return operator.index(count)


def _iterations(bounds: tuple[Any, ...]) -> Iterator[Any]:
    current = current_interpreter()
    program = _recorded(current)
    assert program is not None
    start, stop, step = _range_bounds(bounds)
    count = _trip_count(start, stop, step)
    if isinstance(count, int) and count <= 0:
        return
    if count is None:
        start, stop = _bound(start), _bound(stop)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    if yields_within(frame.f_code, frame.f_lasti):
        raise TracerError(
            "the body of the loop over tj.range is in a generator and yields, so that what iterates over the "
            "generator would see one "
            "iteration; loop over tj.range where the values are used, or use Python's range",
            location=user_location(),
        )
    before = dict(frame.f_locals)
    held = PythonState(before.values())
    first: StageInterpreter | None = None
    while True:
        inner = StageInterpreter(current)
        inner.name = "range"
        inner.certain = _is_positive(count)
        # as range's numbers are: it bends to the dtype of arrays
        index: Any = inner.new_input(ShapedArray((), np.int64, weak=True))
        inner.ranges[index.value] = (0, count - 1) if count is not None else _numbers(start, stop, step)
        try:
            with use_interpreter(inner):
                yield (
                    index
                    if count is None or (step == 1 and isinstance(start, int) and start == 0)
                    else index * step + start
                )
            filled = first is None and (_varies(inner, held.filled()) or _asks_for_names(frame.f_code))
        except GeneratorExit:  # an error raised here would be lost: the trace raises it when the function returns
            program.refused = _left_early() if first is None else _filled_a_cache()
            raise
        finally:
            inner.alive = False
        program.refused = program.refused or inner.refused
        _check_names(frame, before, inner)
        held.check("the loop over tj.range", _INSTEAD)
        if not filled:
            break
        first = inner  # what it put somewhere is there in the next iteration: that is traced as well
    if first is not None and not _same_program(first, inner):
        raise _filled_a_cache()
    cells = [c for c, _ in inner.cells.values()]
    # What was read of a cell before its first change is the carry of the iteration before.
    seen = [inner.captured_cells.get(id(c)) for c in cells]
    carries = [known[1] if known is not None else Var(c.aval.strong()) for known, c in zip(seen, cells, strict=True)]
    if not inner.relied_on.isdisjoint(carries):
        raise ChangedLater
    keep = [(v, c) for v, c in zip(inner.captured.values(), inner.constants, strict=True) if v not in carries]
    captured = [c for _, c in keep]
    if count is None:
        condition, body = _counting(inner, (start, stop, step), carries)
        results = bind(While(condition, body, 1, len(keep)), stop, *captured, start, *cells)[1:]
    else:
        jaxpr = Jaxpr(
            (*[v for v, _ in keep], inner.inputs[0], *carries), inner.equations, [v for _, v in inner.cells.values()]
        )
        results = bind(Loop(jaxpr, count, len(keep), len(cells)), *captured, *cells)
    for cell, new in zip(cells, results, strict=True):
        cell.assign(new)


_INSTEAD = "change arrays in place (x[...] = ...), use tj.lax.fori_loop with the values as its state, or Python's range"


def _left_early() -> TracerError:
    return TracerError(
        "a loop over tj.range is left early (break, return or an exception); its body is traced once and stands for "
        "every iteration; "
        "use tj.lax.while_loop, or Python's range for a loop that is unrolled",
        location=user_location(),
    )


def _filled_a_cache() -> TracerError:
    return TracerError(
        "the first iteration of the loop over tj.range leaves a value that depends on the iteration where the next "
        "one finds it (a cache, "
        f"a new key or attribute); {_INSTEAD}",
        location=user_location(),
    )


def _check_names(frame: FrameType, before: dict[str, Any], inner: StageInterpreter) -> None:
    """Raises TracerError if the body of a loop has bound a variable anew that the next iteration would read."""
    names, target = frame.f_locals, target_of(frame.f_code, frame.f_lasti)
    for name, old in before.items():
        if name not in names or name == target:
            continue
        new = names[name]
        if new is old or (isinstance(old, Tracer) and not old.interpreter.alive):
            continue  # the latter is what an earlier loop left, which cannot be read any more
        code, place = frame.f_code, frame.f_lasti
        made_here = isinstance(new, Tracer) and new.interpreter is inner
        if (made_here and name not in bound_first(code, place)) or name in carried_names(code, place):
            raise TracerError(
                f"the loop over tj.range binds {name!r} anew in every iteration, which is not carried to the next; "
                f"change an array in place ({name}[...] = ...) or use tj.lax.fori_loop",
                location=user_location(),
            )


def _varies(inner: StageInterpreter, values: Iterable[Tracer]) -> bool:
    """Whether one of the values that the body of a loop has put somewhere is another one in each iteration."""
    put = list(values)
    if not all(x.interpreter.alive for x in put):
        return True  # of a loop within this one
    own = [x for x in put if x.interpreter is inner]
    if not own:
        return False
    varying: set[Any] = {inner.inputs[0]}
    varying.update(
        known[1] for cell, _ in inner.cells.values() if (known := inner.captured_cells.get(id(cell))) is not None
    )
    for equation in inner.equations:
        if not varying.isdisjoint(x for x in equation.inputs if isinstance(x, Var)):
            varying.update(equation.outputs)
    return any(isinstance(atom := inner.atom(x), Var) and atom in varying for x in own)


def _same_program(one: StageInterpreter, two: StageInterpreter) -> bool:
    """Whether two traces of a body have recorded the same."""
    if len(one.constants) != len(two.constants) or [id(c) for c, _ in one.cells.values()] != [
        id(c) for c, _ in two.cells.values()
    ]:
        return False
    for a, b, where, there in zip(one.constants, two.constants, one.captured, two.captured, strict=True):
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        if where != there and not (arrays and a.tobytes() == b.tobytes()):
            return False

    def text(trace: StageInterpreter) -> str:
        inputs = [*trace.captured.values(), *trace.inputs]
        return print_jaxpr(
            Jaxpr(tuple(dict.fromkeys(inputs)), tuple(trace.equations), tuple([v for _, v in trace.cells.values()]))
        )

    return text(one) == text(two)


def _asks_for_names(code: CodeType) -> bool:
    """Whether code can tell that a variable has no value yet, as in the first iteration of a loop that binds it."""
    return not _TELLING_NAMES.isdisjoint(code.co_names)


_TELLING_NAMES = frozenset({"NameError", "UnboundLocalError", "locals", "vars", "dir"})


def _recorded(interpreter: Interpreter | None) -> StageInterpreter | None:
    """What records a program at the bottom of the transformations in progress, if anything:
    a loop is then one operation.
    """
    while interpreter is not None:
        if isinstance(interpreter, StageInterpreter) and not interpreter.partial:
            return interpreter
        interpreter = interpreter.parent
    return None


def _range_bounds(bounds: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """(start, stop, step) of a range's arguments.  Raises DtypeError for what is no integer."""
    if not 1 <= len(bounds) <= 3:
        raise TypeError(f"range expected 1 to 3 arguments, got {len(bounds)}")
    for b in bounds:
        if isinstance(b, Tracer) and (b.shape or b.dtype.kind not in "iu"):
            raise DtypeError(
                f"tj.range counts in integers, not in a traced array {b.aval}; use x.astype(int)",
                location=user_location(),
            )
    if len(bounds) == 1:
        return 0, bounds[0], 1
    return bounds[0], bounds[1], bounds[2] if len(bounds) == 3 else 1


def _trip_count(start: Any, stop: Any, step: Any) -> Extent | None:
    """How many iterations; None if that is known only when the program runs."""
    if any(isinstance(b, Tracer) for b in (start, stop, step)):
        for b in (start, stop, step):
            if isinstance(b, Tracer) and b.known() is None:
                b.ask()
                operator.index(step)
                if step == 0:
                    raise ValueError("range() arg 3 must not be zero")
                return None
        return len(builtins.range(*[operator.index(b) for b in (start, stop, step)]))
    if isinstance(stop, Dim) or isinstance(start, Dim):
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        distance, stride = (stop - start, step) if step > 0 else (start - stop, -step)
        return distance if stride == 1 else (distance + (stride - 1)) // stride
    return len(builtins.range(operator.index(start), operator.index(stop), operator.index(step)))


def _numbers(start: Any, stop: Any, step: int) -> Range:
    """Between which numbers those of a range lie, as far as its bounds tell."""
    (low, high), (least, most) = (x.value_range() if isinstance(x, Tracer) else (int(x), int(x)) for x in (start, stop))
    if step > 0:
        return low, None if most is None else most - 1
    return None if least is None else least + 1, high


def _bound(b: Any) -> Any:
    """A bound of a range as it is now, which the loop's body may change."""
    if isinstance(b, Dim):
        return OPERATORS.extent(b)
    if not isinstance(b, Tracer):
        return np.int64(operator.index(b))
    seen = b.seen()
    return OPERATORS.to_dtype(Tracer(seen.interpreter, seen.value, seen.aval.strong()), np.dtype(np.int64))


def _counting(inner: StageInterpreter, bounds: tuple[Any, Any, int], carries: Sequence[Var]) -> tuple[Jaxpr, Jaxpr]:
    """(condition, body) of the `while` that a range is whose bounds are known only when the program runs: it counts.

    condition: of (stop, number, carries...); body: of (captured..., number, carries...).
    """
    number, (_, _, step) = inner.inputs[0], bounds
    place, count = user_location(), ShapedArray((), np.int64)
    stop, goes_on, following = Var(count), Var(ShapedArray((), np.bool_)), Var(count)
    test = Equation(Lt(), (number, stop) if step > 0 else (stop, number), (goes_on,), place)
    steps = Equation(Add(), (number, Literal(step, count)), (following,), place)
    captured = [v for v in inner.captured.values() if v not in carries]
    after = [v for _, v in inner.cells.values()]
    condition = Jaxpr((stop, number, *[Var(v.aval) for v in carries]), (test,), (goes_on,))
    return condition, Jaxpr((*captured, number, *carries), (*inner.equations, steps), (following, *after))
