"""Random questions about memory order: is this a view of that?  The answer is seen by writing to both.

`y` follows from an argument of some layout, `t` from `y`, each by one of many forms; then elements of either are changed, outside of loops
and in them.
"""

from __future__ import annotations

import copy
import random
from string import Formatter
from typing import Any

import numpy as np

from tests.generators.harness import Case, Statement
from tests.generators.programs import COPIES, EITHER, VIEWS
from tests.generators.templates import ALL

__all__ = ["order"]

# What keeps a memory order, changes it, or makes one.
ORDERS = [
    "{x}.T", "{x}.T.copy()", "{x}.T.copy('K')", "np.copy({x}.T)", "np.array({x}.T)", "np.array({x}.T, order='C')", "{x} + 1", "{x}.T + 1",
    "{x}.T * {x}.T", "np.floor({x}.T)", "-{x}.T", "{x}.astype('f4')", "{x}.T.astype('f4')", "np.zeros_like({x}.T)", "np.ones_like({x})",
    "np.full_like({x}.T, 2)", "np.where({x}.T > 0, {x}.T, 1)", "np.clip({x}.T, 0, 3)", "np.round({x}.T)",
    "np.concatenate([{x}.T, {x}.T])", "np.stack([{x}.T, {x}.T], -1)[..., 0]", "np.stack([{x}, {x}], 1)", "np.roll({x}.T, 1, 0)",
    "np.pad({x}.T, 1)", "np.tile({x}.T, 2)", "np.repeat({x}.T, 2, 0)", "np.flip({x}.T).copy()", "np.diff({x}.T, axis=0)", "np.tril({x}.T)",
    "np.take({x}.T, [0, 1], 0)", "{x}.T[[1, 0]]", "{x}[[1, 0]]", "{x}[..., [1, 0]]", "{x}.T[..., [1, 0]]", "{x}[:, None].T", "{x}[::-1] * 1",
    "np.cumsum({x}.T, 0)", "np.max(np.stack([{x}, {x}]).T, -1)", "np.sum(np.stack([{x}.T, {x}.T], 1), 1)", "np.swapaxes({x}, 0, -1) + 1",
    "np.moveaxis({x}, 0, -1) * 2", "{x}.T + np.zeros({x}.T.shape)", "{x} + {x}[:1]", "np.broadcast_to({x}, (2, *{x}.shape)).copy()",
    "np.broadcast_to({x}, (2, *{x}.shape)) + 0", "({x}.T > 1) * 1", "{x}.T // 1", "np.maximum({x}.T, 1)", "{x}.T ** 2",
    "{x}[1:]", "{x}[::2]", "{x}[..., 1:]", "{x}[..., ::-1]", "np.expand_dims({x}, 1)", "np.atleast_2d({x}).T", "np.outer({x}, [1, 2])",
    "np.einsum('...->...', {x})", "np.einsum('ij->ji', {x})", "np.einsum('ij->ji', {x}) * 1", "np.rot90({x})", "np.rot90({x}, 2)",
    "np.fliplr({x})", "np.hstack([{x}.T, {x}.T])", "np.vstack([{x}.T, {x}.T])", "np.dstack([{x}, {x}])", "np.nan_to_num({x}.T)",
    "np.select([{x}.T > 0], [{x}.T], 1)", "np.append({x}.T, {x}.T, 0)", "np.delete({x}.T, 0, 0)", "np.insert({x}.T, 0, 1, 0)", "np.abs({x}.T)",
    "{x}.T.clip(0, 4)", "{x}.T.round()", "np.real({x}.T)", "np.split({x}.T, [1])[1]", "np.squeeze({x}.T)", "{x}.T.sum(0)", "np.add({x}.T, 1)",
    "np.divide({x}.T, 2)", "np.meshgrid({x}, {x})[0]", "np.meshgrid({x}[0], {x}[..., 0], copy=False)[0]",
    "np.meshgrid({x}[0], {x}[..., 0], copy=False, sparse=True)[1]", "{x}.flat[:]", "{x}.flat[1:3]", "{x}.T.flat[::2]", "np.block({x})",
    "np.block([{x}, {x}])", "np.linalg.diagonal({x})", "np.broadcast_to({x}, {x}.shape)", "np.broadcast_arrays({x}, {x}[:1])[0]",
    "max([{x}, {x}[:1]], key=len)", "min({x}, {x}[:1], key=len)", "np.mean([{x}, {x}], axis=0)", "np.max([{x}.T, {x}.T], axis=0)",
    "np.zeros_like({x}, order='A', shape=(2, 3, 2))", "np.full_like({x}.T, 1, order='A', shape=(4, 2))", "np.linspace(0, {x}, 3)",
    "np.linspace({x}, {x}.T * 2, 3, axis=-1)", "np.linspace({x}, 8, 3, axis=1)", "np.cross({x}, [1, 2, 3], axis=0)",
    "np.cross([1, 2, 3], {x}, axisb=0, axisc=0)", "np.cross({x}.T, [2, 0, 1], axisa=0)", "np.floor(np.geomspace(1, {x} + 1.5, 3, axis=-1))",
    "np.indices((2, 3))[1]", "np.kron({x}, [1, 2])",
]  # fmt: skip
HOLES = {"a", "b", "c", "k", "n", "ax"}


def _calls(grades: str) -> list[str]:
    return [
        t.text
        for t in ALL
        if t.grade in grades
        and t.name not in ("imag", "norm", "sin")
        and "{a}" in t.text
        and {name.split(".")[0] for _, name, _, _ in Formatter().parse(t.text) if name} <= HOLES
    ]


CALLS = _calls("x>")
"""How every function whose results are exact is called with arrays."""
SUMS = _calls("sd")
"""Those whose results are exact if the elements are small integers."""
LAYOUTS = [
    "{0}", "{0}", "np.asfortranarray({0})", "{0}[::-1]", "{0}[..., ::-1]", "np.repeat({0}, 2, axis=-1)[..., ::2]", "np.repeat({0}, 2, axis=0)[1::2]",
    "np.ascontiguousarray({0}.T).T", "np.pad({0}, 1)[tuple([slice(1, -1)] * {0}.ndim)]",
    "np.rec.fromarrays([{0} > 0, {0}], names='flag, x')['x']", "np.rec.fromarrays([{0}.T > 0, {0}.T], names='flag, x')['x'].T",
]  # fmt: skip
VALUES: dict[tuple[int, ...], str] = {
    (6,): "np.arange(6.)", (2, 3): "np.arange(6.).reshape(2, 3)", (3, 3): "np.arange(9.).reshape(3, 3)", (1, 4): "np.arange(4.).reshape(1, 4)",
    (2, 3, 2): "np.arange(12.).reshape(2, 3, 2)", (3, 1): "np.arange(3.).reshape(3, 1)", (1,): "np.ones(1)",
}  # fmt: skip


def _form(r: random.Random, x: str, have: Any) -> tuple[str, Any]:
    """A form that NumPy accepts, and what it gives."""
    while True:
        whole = np.all(np.floor(have) == have) and np.max(np.abs(have)) < 50
        form = r.choice(
            r.choice([COPIES, VIEWS, EITHER, EITHER, ORDERS, ORDERS, ORDERS, CALLS, CALLS, SUMS if whole else CALLS])
        )
        if "{a}" in form:
            a, b, c = [
                r.choice([x, x, f"{x}.T", f"{x} * 2", f"{x}.T + 1", f"{x}[:1]", f"{x}[0]"][: 3 if k == 0 else 7])
                for k in range(3)
            ]
            a, b, c = [f"({v})" if " " in v else v for v in (a, b, c)]
            text = form.format(
                a=a, b=b, c=c, k=r.randint(0, 2), n=r.choice([0, 1, 2.5, -1]), ax=r.randrange(-have.ndim, have.ndim)
            )
        else:
            text = form.format(x=x, n=have.shape[0], shape=have.shape)
        try:
            with np.errstate(all="ignore"):
                made = eval(text, {"np": np, x: have, "copy": copy})
        except Exception:
            continue
        if isinstance(made, np.ndarray) and made.ndim and made.size and made.dtype.kind in "fi":
            return text, made


def _write(r: random.Random, x: str, have: Any) -> str:
    place = r.choice([
        f"{x}[0]", f"{x}[-1]", f"{x}[...]", f"{x}[..., 0]", f"{x}.T[0]", f"{x}[..., -1]", f"{x}[::2]", f"{x}.reshape(-1)[:1]", f"{x}.ravel()[-1:]",
        f"{x}[(0,) * {have.ndim}]",
    ])  # fmt: skip
    return f"{place} {r.choice(['=', '+=', '-='])} {r.randrange(3, 9)}"


def order(seed: int) -> Case:
    """The case of this seed."""
    r = random.Random(seed)
    shape = r.choice([(6,), (2, 3), (2, 3), (2, 3), (3, 3), (1, 4), (2, 3, 2), (2, 3, 2), (3, 1), (1,)])
    x = np.zeros(shape)
    first, y = _form(r, "x", x)
    second, t = _form(r, "y", y)
    body = [Statement(f"y = {first}"), Statement(f"t = {second}")]
    has = [("t", t), ("y", y), ("x", x)]
    if r.random() < 0.3:
        third, u = _form(r, "t", t)
        body.append(Statement(f"u = {third}"))
        has.append(("u", u))
    writes = [Statement(_write(r, *r.choice(has))) for _ in range(r.randint(1, 3))]
    if r.random() < 0.4:
        loop = body[1:] + writes if r.random() < 0.7 else writes
        begin = body[: len(body) - len(loop) + len(writes)]
        sums = [Statement(f"s += np.sum(np.floor({n}))") for n, _ in has]  # exact in any order
        body = [
            *begin,
            Statement("s = np.zeros(1)"),
            Statement(f"for _ in tj.range({r.choice([1, 2, 3])}):", loop + sums),
        ]
        has = [("s", None), ("x", x)] + ([("y", y)] if len(begin) else [])
    else:
        body += writes
    body.append(Statement(f"return {', '.join(n for n, _ in has)},", fixed=True))
    calls: list[tuple[list[str], list[str]]] = [
        ([r.choice(LAYOUTS).format(VALUES[shape])], []) for _ in range(r.choice([1, 1, 2]))
    ]
    return Case("import copy", ["x"], body, calls)
