"""Which equations are matrix products, which axis plays which role in them, and what can run together with one."""

from __future__ import annotations

from collections.abc import Sequence

from tracejit.ir.extents import Extent, prod, same_shape
from tracejit.ir.forms import Contract, Form, Map, Piecewise
from tracejit.ir.jaxpr import Var
from tracejit.ir.kernel import Op, Read
from tracejit.ir.passes.groups import FormEquation, Group, form_cost
from tracejit.support.nodes import frozen

__all__ = ["Product", "epilogue_cost", "find_product", "followers", "follows", "tiles_well"]

LEAST_WORK = 2048  # multiply-adds: smaller products are plain loops


def tiles_well(form: Form) -> bool:
    """Whether a form is a matrix product worth tiling: both operands are read again and again,
    and there is work enough.
    """
    if not isinstance(form, Contract):
        return False
    m, n, k = _extents(form)
    if any(isinstance(x, int) and x <= 1 for x in (m, n)):
        return False
    work = m * n * k
    return not isinstance(work, int) or work >= LEAST_WORK


def _extents(form: Contract) -> tuple[Extent, Extent, Extent]:
    nb, nm, _ = form.groups
    return prod(form.domain[nb : nb + nm]), prod(form.domain[nb + nm :]), prod(form.over)


def _own_index_reads(form: Form, operand: int) -> bool:
    """Whether a Map reads an operand at its own index only, so that it can run where that element was just made."""
    if not isinstance(form, Map):
        return False
    reads = [s for s in form.body.body if isinstance(s, Read) and s.operand == operand]
    nested = any(not isinstance(s, (Op, Read)) for s in form.body.body)
    return not nested and all(
        len(s.index) == len(form.body.params) and all(i is p for i, p in zip(s.index, form.body.params, strict=True))
        for s in reads
    )


def follows(e: FormEquation, operands: Sequence[int], product: FormEquation) -> bool:
    """Whether an equation that reads these operands can run where an element of the product was just made."""
    domain = getattr(product.form, "domain", ())
    return (
        isinstance(e.form, Map)
        and same_shape(e.form.domain, domain)
        and all(_own_index_reads(e.form, k) for k in operands)
    )


def followers(product: FormEquation, equations: Sequence[FormEquation], outputs: Sequence[Var]) -> set[Var] | None:
    """The values that follow a product element by element: all of `outputs` must be among them, else None."""
    after: set[Var] = set(product.outputs)
    for e in equations:
        used = [] if e is product else [k for k, a in enumerate(e.inputs) if a in after]
        if used:
            if not follows(e, used, product):
                return None
            after.update(e.outputs)
    return after if all(v in after for v in outputs) else None


@frozen(eq=False)
class Product:
    """The roles of the axes of a Contract: domain axes looped over outside, those of the rows, the column axis.

    Axes of length 1 have none.  turned: the columns are free axes of operand 0, and the rows those of operand 1.
    """

    equation: FormEquation
    outer: tuple[int, ...]
    rows: tuple[int, ...]
    column: int
    depth: tuple[int, ...]
    turned: bool = False

    @property
    def form(self) -> Contract:
        assert isinstance(self.equation.form, Contract)
        return self.equation.form

    def extent(self, axes: Sequence[int]) -> Extent:
        return prod(self.form.domain[a] for a in axes)


def find_product(group: Group) -> Product | None:
    """The product a group is built around, if everything else computes its operands or follows it element by
    element.
    """
    contracts = [e for e in group.equations if isinstance(e.form, Contract)]
    found = [e for e in contracts if tiles_well(e.form)] or contracts
    if len(found) != 1 or group.in_place:
        return None
    (e,) = found
    form = e.form
    assert isinstance(form, Contract)
    m, n, k = _extents(form)
    if (
        any(isinstance(x, int) and x == 0 for x in (*form.domain, k))
        or (_is_one(m) and _is_one(n))
        or (_is_one(m) or _is_one(n)) == tiles_well(form)
    ):
        return None
    if followers(e, group.equations, group.outputs) is None or not all(
        isinstance(x.form, (Map, Piecewise)) for x in group.equations if x is not e
    ):
        return None
    nb, nm, _ = form.groups
    wide = lambda axes: tuple(a for a in axes if not _is_one(form.domain[a]))  # noqa: E731
    rows, columns = wide(range(nb, nb + nm)), wide(range(nb + nm, len(form.domain)))
    turned = not columns
    if turned:
        rows, columns = columns, rows
    depth = tuple(a for a, n in enumerate(form.over) if not _is_one(n))
    return Product(e, (*wide(range(nb)), *columns[:-1]), rows, columns[-1], depth, turned)


def _is_one(n: Extent) -> bool:
    return isinstance(n, int) and n == 1


def epilogue_cost(group: Group, p: Product) -> float:
    """Cost of everything after the product, in vector adds an element."""
    after: set[Var] = set(p.equation.outputs)
    total = 0.0
    for e in group.equations:
        if e is not p.equation and any(a in after for a in e.inputs):
            after.update(e.outputs)
            total += form_cost(e.form)
    return total
