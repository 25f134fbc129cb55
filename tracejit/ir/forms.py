"""Forms: what a primitive computes, as data.  The closed set that fusion and composition know;
they never look at primitives.

A form states, for each element of its results, a scalar expression over elements of its operands (a `Lambda` whose
`Read`s name operand and index).  Rules build forms with a `FormBuilder`, device-free, once, without recursion over the
program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tracejit.ir.builder import ScalarRecorder, make_lambda
from tracejit.ir.extents import Extent, Shape
from tracejit.ir.kernel import Const, Lambda, Operand as Scalar, Value
from tracejit.ir.scalar import kernel_dtype
from tracejit.ir.types import ShapedArray
from tracejit.support.nodes import frozen

if TYPE_CHECKING:
    from tracejit.ir.jaxpr import Jaxpr
    from tracejit.ir.primitive import Primitive

__all__ = [
    "Contract",
    "Environment",
    "Expand",
    "FanOut",
    "Form",
    "FormBuilder",
    "FormOf",
    "HostFunction",
    "KernelSources",
    "LibraryCall",
    "Loop",
    "Map",
    "Operand",
    "Piecewise",
    "Piece",
    "Reduce",
    "Scan",
    "Scatter",
    "Update",
    "Whole",
    "own_form",
]


@frozen(eq=False)
class Map:
    """Every result element from operand elements: `result[i] = body(i)`.  All results share `domain`."""

    domain: Shape
    body: Lambda


@frozen(eq=False)
class Reduce:
    """`result[i] = finish(fold of body(i, k) over k)`.

    body: Lambda(i..., k...) -> one element per carrier; init: the identity of each carrier; combine:
    Lambda(carriers..., elements...) -> carriers, associative and commutative enough to be partitioned; step: the same
    fold where elements come in increasing order of k, if that is cheaper; finish: Lambda(carriers...) -> results.
    """

    domain: Shape
    over: Shape
    body: Lambda
    init: tuple[Const, ...]
    combine: Lambda
    finish: Lambda | None = None
    step: Lambda | None = None


@frozen(eq=False)
class Contract(Reduce):
    """A Reduce that is a sum of products: domain = batch + rows + columns, over = contracted axes.

    Operand 0 is read at (batch, rows, contracted), operand 1 at (batch, columns, contracted), in `lhs` and `rhs` axis
    order: each a tuple naming for every operand axis its role and position, ("b" | "m" | "n" | "k", position).
    """

    lhs: tuple[tuple[str, int], ...] = ()
    rhs: tuple[tuple[str, int], ...] = ()
    groups: tuple[int, int, int] = (0, 1, 1)  # how many batch, row and column axes


@frozen(eq=False)
class Scan:
    """`result[i, k] = fold of body(i, 0..k)` along `axis` of the domain; `reverse` runs from the last element.

    ordered: element by element, since what neighbours combine to may overflow where the fold from the start does not.
    """

    domain: Shape
    axis: int
    body: Lambda
    init: tuple[Const, ...]
    combine: Lambda
    reverse: bool = False
    ordered: bool = False


@frozen(eq=False)
class Update:
    """`result = base` (operand 0) with `body(i)` stored at `start + i * step` for i in `region`;
    that box lies inside the domain.

    start: Lambda(() -> one i64 per axis), it may read operands of rank 0.
    """

    domain: Shape
    region: Shape
    start: Lambda
    step: tuple[int, ...]
    body: Lambda


@frozen(eq=False)
class Scatter:
    """`result = base` (operand 0) with `combine(result[t], v)` for (t..., valid, v) = body(i), i in `region` in order.

    Targets may repeat.
    """

    domain: Shape
    region: Shape
    body: Lambda
    combine: Lambda | None


@frozen(eq=False)
class FanOut:
    """Several elements of the result at a time: `body(i)` gives, for i in `region`, all those along some axes.

    The result has the elements of `view`, row-major, under the shape `domain`.  `view` is `region` with further axes
    of a few elements, which are numbered in `axes`; what the body gives is in the order of these axes.
    """

    domain: Shape
    region: Shape
    view: Shape
    axes: tuple[int, ...]
    body: Lambda


@frozen(eq=False)
class Piece:
    """A box of the domain, `lower <= i < upper` per axis, and its body."""

    lower: Shape
    upper: Shape
    body: Lambda


@frozen(eq=False)
class Piecewise:
    """Boxes that cover the domain; an element takes the first piece that contains it."""

    domain: Shape
    pieces: tuple[Piece, ...]


@frozen(eq=False)
class Loop:
    """A loop or branch over whole arrays whose bodies are jaxprs:
    kind "while", "for" or "cond", run by the program.
    """

    kind: str
    bodies: tuple[Jaxpr, ...]
    parameters: tuple[tuple[str, Any], ...] = ()


@frozen
class Environment:
    """A library of native functions.  `find(symbol)` gives the address in this process;
    it raises BackendUnavailable with the reason.
    """

    name: str
    find: Callable[[str], int]


@frozen(eq=False)
class KernelSources:
    """A kernel that a user has written in the languages of backends.

    name: unique in the process.  entry: the name of its function.  block: work-items of a group.  sources: backends to
    what each takes (`Backend.fault_of_kernel`).
    """

    name: str
    entry: str
    block: int
    sources: Mapping[str, Any]


class HostFunction:
    """A Python function that a program calls, and waits for: equal to itself only.

    name: unique in the process.  run(operands, results): fills the results, row-major arrays of the program's, and
    raises nothing.  native: what a backend has made of it, which lives as long as it.
    """

    __slots__ = ("__weakref__", "name", "native", "run")

    def __init__(self, name: str, run: Callable[[list[Any], list[Any]], None]) -> None:
        self.name, self.run = name, run
        self.native: Any = None

    def __repr__(self) -> str:
        return self.name


@frozen
class Whole:
    """An argument of a library call: the address of a whole array, row-major.  kind: "operand" or "result"."""

    kind: str
    number: int


@frozen(eq=False)
class LibraryCall:
    """A call of `symbol` from `environment` over whole arrays: `void symbol(arguments)` writes every element
    of every result.   grid: groups of work-items, of a kernel on a device.
    """

    symbol: str
    environment: Environment | KernelSources | HostFunction
    arguments: tuple[Whole | Const, ...] = ()
    grid: Extent = 1


@frozen(eq=False)
class Expand:
    """A composition of other primitives: traced by calling `function` on the operands."""

    function: Callable[..., Any]


Form: TypeAlias = Map | Reduce | Contract | Scan | Update | Scatter | FanOut | Piecewise | Loop | LibraryCall | Expand


class Operand:
    """An array operand inside a lowering rule: `x[i, j]` reads one element."""

    __slots__ = ("_recorder", "aval", "number")

    def __init__(self, recorder: Callable[[], ScalarRecorder], number: int, aval: ShapedArray) -> None:
        self._recorder = recorder
        self.number = number
        self.aval = aval

    def __repr__(self) -> str:
        return f"Operand({self.number}: {self.aval})"

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> str:
        return kernel_dtype(self.aval.dtype)

    def __getitem__(self, index: Any) -> Value:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.aval.shape):
            raise TypeError(f"operand {self.number} of rank {len(self.aval.shape)} read at {len(index)} indices")
        return self._recorder().read(self.number, index, self.dtype)


FormOf: TypeAlias = "Callable[[Primitive, Sequence[ShapedArray], Sequence[ShapedArray]], Form]"
"""`(primitive, avals of its operands, avals of its results) -> form`."""


def own_form(primitive: Primitive, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Form:
    """The form that a primitive itself gives, no backend's or user's rule asked."""
    builder = FormBuilder(out_avals)
    return primitive.lower(builder, *[Operand(builder.recorder, n, a) for n, a in enumerate(in_avals)])


class FormBuilder:
    """What a lowering rule gets: `op`, `const`, `branch`, `while_loop` record scalars;
    `map`, `reduce`, ... make the form.

    fuses(): whether the device has an instruction for `fma`; where it is a function, sums of products are better
    rounded twice a step.
    form_of(primitive, in_avals, out_avals): the form of an equation that a loop or a branch writes into its own body.
    backend: for which the form is; empty where it is for none.
    """

    def __init__(
        self,
        out_avals: Sequence[ShapedArray],
        fuses: Callable[[], bool] = lambda: True,
        form_of: FormOf | None = None,
        backend: str = "",
    ) -> None:
        self.backend = backend
        self.out_avals = tuple(out_avals)
        self.fuses = fuses
        self.form_of = form_of or own_form
        self._current: ScalarRecorder | None = None

    def recorder(self) -> ScalarRecorder:
        assert self._current is not None, "scalar statements are recorded inside a form's body only"
        return self._current

    def op(self, name: str, *args: Scalar, dtype: str | None = None) -> Scalar:
        return self.recorder().op(name, *args, dtype=dtype)

    def const(self, value: Any, dtype: str) -> Const:
        return Const(value, dtype)

    def extent(self, n: Extent) -> Const:
        return Const(n, "i64")

    def body(self, arity: int, function: Callable[..., Any]) -> Lambda:
        """Record `function(index tuple)`."""

        def run(recorder: ScalarRecorder, *params: Value) -> Any:
            outer, self._current = self._current, recorder
            try:
                return function(params)
            finally:
                self._current = outer

        return make_lambda(["i64"] * arity, run)

    def combiner(self, dtypes: Sequence[str], function: Callable[..., Any]) -> Lambda:
        """Record `function(recorder, accumulators, elements)`."""
        n = len(dtypes)
        return make_lambda([*dtypes, *dtypes], lambda r, *ps: function(r, ps[:n], ps[n:]))

    def map(self, domain: Shape, function: Callable[[tuple[Value, ...]], Any]) -> Map:
        return Map(domain, self.body(len(domain), function))

    def fan_out(
        self, domain: Shape, view: Shape, axes: Sequence[int], function: Callable[[tuple[Value, ...]], Any]
    ) -> FanOut:
        """The elements along `axes` of `view` at each index along the others."""
        region = tuple([n for d, n in enumerate(view) if d not in axes])
        return FanOut(domain, region, tuple(view), tuple(axes), self.body(len(region), function))

    def reduce(
        self,
        domain: Shape,
        over: Shape,
        body: Callable[[tuple[Value, ...], tuple[Value, ...]], Any],
        init: Sequence[Const],
        combine: Callable[..., Any],
        finish: Callable[..., Any] | None = None,
    ) -> Reduce:
        n = len(domain)
        dtypes = [c.dtype for c in init]
        last = None if finish is None else make_lambda(dtypes, finish)
        return Reduce(
            domain,
            over,
            self.body(n + len(over), lambda p: body(p[:n], p[n:])),
            tuple(init),
            self.combiner(dtypes, combine),
            last,
        )
