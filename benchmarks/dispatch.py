"""What a warm call costs beside the program: matching, allocation,
result. The programs are written by hand and do next to nothing.

python -m benchmarks.dispatch            beside NumPy, and Numba where it is installed
python -m benchmarks.dispatch --python   dispatch in Python
python -m benchmarks.dispatch --compile  what compiling an entry costs
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import repeat
from types import ModuleType
from typing import Any

import numpy as np
from attrs import field, frozen

from tracejit.backends import entry as e
from tracejit.backends.callable import CompiledFunction
from tracejit.backends.cpu.calls import dispatch
from tracejit.backends.cpu.calls.dispatch_python import PythonDispatcher
from tracejit.backends.cpu.calls.entry_emit import emit_entry, join
from tracejit.backends.cpu.runtime import llvm

N = 10
ARRAY = e.ArrayGuard("f4", (N,))
OUT = e.OutLeaf(0)
SYMBOLIC = e.ArrayGuard("f4", ("n",))

# out = in + 1, or the sum of all inputs: slots are the inputs' addresses, then the output's.
PLUS_ONE = f"""
define i32 @plus_one(ptr %slots) {{
  %in = load ptr, ptr %slots
  %place = getelementptr i64, ptr %slots, i64 1
  %out = load ptr, ptr %place
  %x = load <{N} x float>, ptr %in, align 4
  %y = fadd <{N} x float> %x, splat (float 1.0)
  store <{N} x float> %y, ptr %out, align 4
  ret i32 0
}}
"""


def sum_of(count: int) -> str:
    """A program that adds `count` arrays."""
    lines = ["define i32 @sum(ptr %slots) {"]
    for index in range(count):
        lines += [f"  %s{index} = getelementptr i64, ptr %slots, i64 {index}", f"  %p{index} = load ptr, ptr %s{index}"]
        lines += [f"  %x{index} = load <{N} x float>, ptr %p{index}, align 4"]
        lines += [f"  %y{index} = fadd <{N} x float> %x{index}, " + (f"%y{index - 1}" if index else "zeroinitializer")]
    lines += [f"  %s{count} = getelementptr i64, ptr %slots, i64 {count}", f"  %out = load ptr, ptr %s{count}"]
    return "\n".join([*lines, f"  store <{N} x float> %y{count - 1}, ptr %out, align 4", "  ret i32 0", "}", ""])


def spec(signature: e.Signature, program: str, result: e.Result = OUT, **options: Any) -> e.EntrySpec:
    """All arrays of the signature in, one array out."""
    arrays = [place for place, leaf in enumerate(e.leaves(signature)) if isinstance(leaf, e.ArrayGuard)]
    return e.EntrySpec(
        signature, [*map(e.DataSlot, arrays), e.OutSlot(0)], [e.OutputSpec("f4", (N,))], result, program, **options
    )


@frozen
class Case:
    """One kind of call: its entry, its arguments, and the same in NumPy."""

    name: str
    entry: e.EntrySpec
    program: str
    args: tuple[Any, ...]
    numpy: Callable[..., Any]
    kwargs: dict[str, Any] = field(factory=dict[str, Any])
    sizes: int = 1  # entries, each for an array one longer than the one before, called in turn


def cases() -> list[Case]:
    """The table's rows."""
    x = [np.full(N, k, np.float32) for k in range(10)]
    keys = ("w1", "b1", "w2", "b2", "x")
    parameters = dict(zip(keys, x, strict=False))
    ten, five = sum_of(10), sum_of(5)
    one = spec(e.Signature([ARRAY]), "plus_one")
    tree = e.Signature([e.DictGuard(keys, [ARRAY] * 5)])
    nested = e.Signature([e.TupleGuard([e.DictGuard(keys[:2], [ARRAY] * 2), e.ListGuard([ARRAY] * 3)])])
    scalars = e.Signature([ARRAY, e.ScalarGuard("float"), e.ScalarGuard("int"), e.StaticGuard("mode")])

    two_and_three = {k: parameters[k] for k in keys[:2]}, x[2:5]
    pair = e.OutTuple([OUT, e.OutDict(["loss"], [OUT])])

    def numpy_sum(*arrays: Any) -> Any:
        return sum(arrays[1:], arrays[0])

    def numpy_tree(p: dict[str, Any]) -> Any:
        return p["w1"] + p["b1"] + p["w2"] + p["b2"] + p["x"]

    return [
        Case("x + 1", one, PLUS_ONE, (x[0],), lambda a: a + 1),
        Case("x + 1, symbolic extent", spec(e.Signature([SYMBOLIC]), "plus_one"), PLUS_ONE, (x[0],), lambda a: a + 1),
        Case("x + 1, GIL released", spec(e.Signature([ARRAY]), "plus_one", release_gil=True), PLUS_ONE, (x[0],),
        lambda a: a + 1), Case("x + 1, 4 sizes in turn", one, PLUS_ONE, (x[0],), lambda a: a + 1, sizes=4),
        Case("x + 1, 20 sizes in turn", one, PLUS_ONE, (x[0],), lambda a: a + 1, sizes=20),
        Case("x, 2.5, 3, 'mode'", spec(scalars, "plus_one"), PLUS_ONE, (x[0], 2.5, 3, "mode"),
        lambda a, b, c, d: a + 1), Case("10 arrays", spec(e.Signature([ARRAY] * 10), "sum"), ten, tuple(x), numpy_sum),
        Case("5 keywords", spec(e.Signature([], [(k, ARRAY) for k in keys]), "sum"), five, (),
        lambda **p: numpy_tree(p), parameters),
        Case("dict of 5 arrays", spec(tree, "sum"), five, (parameters,), numpy_tree),
        Case("({2 arrays}, [3 arrays])", spec(nested, "sum"), five, (two_and_three,),
        lambda t: numpy_sum(*t[0].values(), *t[1])),
        Case("dict in, (array, {array}) out", spec(tree, "sum", pair), five, (parameters,), numpy_tree),
    ]  # fmt: skip


class Function(CompiledFunction):
    """What a decorated function is."""

    __slots__ = ("__call__",)


def build(case: Case, native: bool) -> Callable[..., Any]:
    """The case's function."""
    dispatcher: Any = dispatch.NativeDispatcher(fail) if native else PythonDispatcher(fail)
    longer = (spec(e.Signature([e.ArrayGuard("f4", (N + k,))]), "plus_one") for k in range(1, case.sizes))
    for entry in (case.entry, *longer):
        library = llvm.load(join(case.program, emit_entry(entry, "entry")) if native else case.program)
        dispatcher.add(entry, library.address("entry" if native else entry.program), library)
    function = Function()
    function.__call__ = dispatcher.callable
    dispatch.attach(function, dispatcher)
    return function


def fail(*args: Any, **kwargs: Any) -> Any:
    """What a dispatcher of this benchmark must never call."""
    raise AssertionError("no entry matched")


def numba_cases() -> dict[str, Callable[..., Any]]:
    """The same functions under Numba, or none where it is not installed."""
    try:
        import numba
    except ImportError:
        return {}
    module: ModuleType = numba
    one = module.njit(lambda a: a + np.float32(1))
    ten = module.njit(lambda a, b, c, d, e, f, g, h, i, j: a + b + c + d + e + f + g + h + i + j)
    return {"x + 1": one, "10 arrays": ten}


def nanoseconds(function: Callable[..., Any], case: Case, rounds: int = 60) -> float:
    """A call's time in the best of many rounds, with the loop around it (some 10 ns). Medians would time the neighbours
    as well.
    """
    return min(batch(function, case, 4_000) for _ in range(rounds)) * 1e9


def batch(function: Callable[..., Any], case: Case, number: int) -> float:
    """Seconds a call in one batch, written out by number of arguments so that the loop adds about 10 ns."""
    args, kwargs = case.args, case.kwargs
    clock = time.perf_counter
    if kwargs:
        w1, b1, w2, b2, x = (kwargs[key] for key in ("w1", "b1", "w2", "b2", "x"))
        start = clock()
        for _ in repeat(None, number):
            function(w1=w1, b1=b1, w2=w2, b2=b2, x=x)
    elif case.sizes > 1:
        turn = [np.ones(N + k, np.float32) for k in range(case.sizes)] * (number // case.sizes)
        start = clock()
        for a in turn:
            function(a)
    elif len(args) == 1:
        (a,) = args
        start = clock()
        for _ in repeat(None, number):
            function(a)
    else:
        start = clock()
        for _ in repeat(None, number):
            function(*args)
    return (clock() - start) / number


def compile_costs() -> None:
    """Print what the support library costs once and an entry each time, in ms."""
    llvm.load("define void @warm() {\n  ret void\n}\n")
    start = time.perf_counter()
    dispatch.ensure_loaded()
    print(f"{'support library, once':32} {1e3 * (time.perf_counter() - start):8.2f} ms")
    for case in cases():
        times: dict[str, list[float]] = {"emit": [], "without": [], "with": []}
        for _ in range(15):
            start = time.perf_counter()
            text = emit_entry(case.entry, "entry")
            times["emit"].append(time.perf_counter() - start)
            for name, module in (("without", case.program), ("with", join(case.program, text))):
                start = time.perf_counter()
                llvm.load(module)
                times[name].append(time.perf_counter() - start)
        ms = {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}
        print(f"{case.name:32} {ms['emit']:8.2f} ms emit {ms['with'] - ms['without']:8.2f} ms compile")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="store_true", help="dispatch in Python")
    parser.add_argument("--compile", action="store_true", help="compile times instead of call times")
    options = parser.parse_args()
    if options.compile:
        compile_costs()
        return
    dispatch.ensure_loaded()
    peers = numba_cases()
    print(f"{'ns a call':32} {'tracejit':>9} {'NumPy':>9} {'Numba':>9}")
    for case in cases():
        function = build(case, not options.python)
        np.testing.assert_allclose(leading(function(*case.args, **case.kwargs)).shape, (N,))
        row = [nanoseconds(function, case), nanoseconds(case.numpy, case)]
        if case.name in peers:
            peers[case.name](*case.args)
            row.append(nanoseconds(peers[case.name], case))
        print(f"{case.name:32} " + " ".join(f"{value:9.0f}" for value in row))


def leading(result: Any) -> Any:
    """The array of a result, or the first of its tuple."""
    return result[0] if isinstance(result, tuple) else result


if __name__ == "__main__":
    main()
