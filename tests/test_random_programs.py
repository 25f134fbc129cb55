"""Random NumPy programs over random shapes, dtypes and strides:
the compiled function does what NumPy does, on every backend.

A program is a list of steps over a growing list of arrays.  Values that are computed without rounding (integers, and
small integers held as floats) must agree exactly, and only those are compared, ranked or rounded; others agree within
the rounding of the largest value on the way.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import tracejit as tj

EXAMPLES = int(os.environ.get("TRACEJIT_RANDOM_PROGRAMS", "40"))
SHAPES: list[list[tuple[int, ...]]] = [
    [(7,), (7,), ()], [(3, 5), (5,), (3, 1)], [(4, 4), (4, 4), (1, 4)], [(2, 3, 4), (4,), (3, 4)], [(1,), (6,), ()],
    [(0, 3), (3,), (1, 3)], [(17,), (1,), (17,)], [(9, 2), (2,), (9, 2)], [(33,), (33,), (33,)],
    [(2, 1, 5), (3, 1), (5,)],
]  # fmt: skip
DTYPES = ["f8", "f4", "i4", "i8", "u1", "?", "i2"]
LAYOUTS = ["C", "F", "reversed", "every other", "offset"]


class Value:
    """An array of the program with what the test knows of it: whether it is exact."""

    def __init__(self, array: Any, exact: bool) -> None:
        self.array = array
        self.exact = exact


class Run:
    """Executes the steps on arrays of any kind; on NumPy's it notes the largest magnitude."""

    def __init__(self, arrays: list[Any], note: Callable[[Any], None]) -> None:
        self.values = [Value(a, True) for a in arrays]
        self.note = note

    def push(self, array: Any, exact: bool) -> None:
        self.note(array)
        self.values.append(Value(array, exact))

    def step(self, name: str, i: int, j: int, k: int, number: Any) -> None:
        x, y, z = (self.values[n % len(self.values)] for n in (i, j, k))
        STEPS[name](self, x, y, z, k, number)


def fits(*arrays: Any) -> bool:
    try:
        np.broadcast_shapes(*[a.shape for a in arrays])
    except ValueError:
        return False
    return True


def number_like(a: Any) -> Any:
    """Booleans as numbers: NumPy refuses `-` of booleans."""
    return a.astype(np.int32) if a.dtype == np.bool_ else a


def slices(shape: tuple[int, ...], k: int) -> tuple[slice, ...]:
    out: list[slice] = []
    for n in shape:
        choice, k = k % 6, k // 6
        out.append(
            [
                slice(None),
                slice(1, None),
                slice(None, -1),
                slice(None, None, 2),
                slice(None, None, -1),
                slice(n // 3, n // 3 + max(1, n // 2)),
            ][choice]
        )
    return tuple(out)


def axis_of(a: Any, k: int) -> int:
    return k % a.ndim - (a.ndim if k % 2 else 0)


def binary(function: Callable[[Any, Any], Any], exact: bool | None = None) -> Callable[..., None]:
    def step(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
        if fits(x.array, y.array):
            run.push(function(x.array, y.array), (x.exact and y.exact) if exact is None else exact)

    return step


def unary(function: Callable[[Any], Any], exact: bool | None = None) -> Callable[..., None]:
    def step(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
        run.push(function(x.array), x.exact if exact is None else exact)

    return step


def with_number(function: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def step(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
        match x.array.dtype.kind:
            case "u":
                number = abs(int(number))  # NumPy refuses a negative number beside unsigned ones
            case "i" | "b":
                number = int(number)
        run.push(function(number_like(x.array), number), x.exact)

    return step


def folded(
    function: Callable[..., Any], exact: bool | None = None, *, needs_exact: bool = False, needs_elements: bool = False
) -> Callable[..., None]:
    def step(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
        a = x.array
        if a.ndim == 0 or (needs_exact and not x.exact):
            return
        axis = axis_of(a, k)
        if needs_elements and 0 in a.shape:
            return
        run.push(function(a, axis), x.exact if exact is None else exact)

    return step


def compared(function: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def step(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
        if x.exact and y.exact and fits(x.array, y.array):
            run.push(function(x.array, y.array), True)

    return step


def where(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    if x.exact and fits(x.array, y.array, z.array):
        run.push(np.where(x.array > 1, y.array, z.array), y.exact and z.exact)


def sliced(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    run.push(x.array[slices(x.array.shape, k)] if x.array.ndim else x.array, x.exact)


def update(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    """A slice of a copy set to values that fit, or to a number."""
    if not x.array.ndim:
        return
    a = x.array.copy()
    index = slices(a.shape, k)
    part = a[index]
    exact = x.exact
    if (
        y.exact
        and fits(part, y.array)
        and np.broadcast_shapes(part.shape, y.array.shape) == part.shape
        and np.can_cast(y.array.dtype, a.dtype, "same_kind")
    ):
        a[index] = y.array
    else:
        a[index] = int(abs(number))
    run.push(a, exact)


def update_view(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    """A view changed in place, seen through the array and another view."""
    if not x.array.ndim or x.array.dtype == np.bool_:
        return
    a = x.array.copy()
    view, other = a[slices(a.shape, k)], a[..., ::-1]
    view += 1
    run.push(other, x.exact)
    run.push(a, x.exact)


def shifted_in_place(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    """A recurrence of slices: the right-hand side overlaps what is written."""
    if not x.array.ndim or x.array.dtype == np.bool_:
        return
    a = x.array.copy()
    a[1:] = np.clip(a[1:] - a[:-1], 0, 50)
    a[:-1] += a[1:]
    run.push(np.clip(a, 0, 60), x.exact)


def masked(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    if not x.array.ndim or not x.exact:
        return
    a = x.array.copy()
    a[a > 2] = 1
    run.push(a, True)


def gathered(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = x.array
    if not a.ndim or not a.shape[0]:
        return
    index = np.array([0, a.shape[0] - 1, -1, k % a.shape[0]])
    run.push(a[index], x.exact)


def joined(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    if x.array.ndim and x.array.shape == y.array.shape:
        run.push(np.concatenate([x.array, y.array[::-1]], axis=axis_of(x.array, k)), x.exact and y.exact)


def reshaped(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = x.array
    run.push(a.reshape((-1, *a.shape[2:])) if a.ndim > 1 and 0 not in a.shape else a[None], x.exact)


def transposed(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    run.push(x.array.T if k % 2 else np.swapaxes(x.array, 0, -1) if x.array.ndim else x.array, x.exact)


def product(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = number_like(np.clip(x.array, 0, 3))
    if a.ndim >= 1:
        run.push(np.clip(a @ np.swapaxes(a, -1, -2), 0, 100) if a.ndim > 1 else a @ a, x.exact)


def looped(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    """A loop that changes an array in place; outside of a trace tj.range is Python's."""
    a = number_like(x.array).copy()
    if not a.ndim or not a.shape[0]:  # NumPy has no a[0] then
        return
    for i in tj.range(k % 4):
        a[1:] = np.clip(a[1:] + a[:-1] - i, 0, 40)
        a[0] = np.clip(a[0] * 2 + i, 0, 30)
    run.push(a, x.exact)


def loop_over_rows(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = number_like(x.array).copy()
    if a.ndim < 1 or 0 in a.shape:
        return
    for i in tj.range(a.shape[0] - 1):
        a[i + 1] = np.minimum(a[i] + a[i + 1], 25)
    run.push(a, x.exact)


def carried(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = number_like(x.array)
    b, n = tj.lax.fori_loop(0, 3, lambda i, c: (np.clip(c[0] * 2 - i, 0, 60).astype(a.dtype), c[1] + i), (a, 0))
    run.push(np.asarray(b + n + np.int64(0)) if isinstance(b, np.ndarray) else b + n + np.int64(0), x.exact)


def repeated(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    """A while loop whose end depends on the values."""
    a = number_like(x.array)
    if x.exact:
        b, n = tj.lax.while_loop(
            lambda c: c[1] < np.minimum(a.sum(), 5),
            lambda c: (np.minimum(c[0] + 1, 90).astype(a.dtype), c[1] + 1),
            (a, 0),
        )
        # a loop that does not run gives back what it was given, which NumPy would then change in place
        run.push(b * 1, True)
        run.push(n + np.int64(0), True)


def chosen(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = number_like(x.array)
    if x.exact:
        run.push(tj.lax.cond(a.sum() > 5, lambda v: np.minimum(v + 1, 70), lambda v: np.minimum(v * 2, 70), a), True)


def scanned(run: Run, x: Value, y: Value, z: Value, k: int, number: Any) -> None:
    a = number_like(x.array)
    if a.ndim and 0 not in a.shape:
        last, rows = tj.lax.scan(lambda c, row: (np.minimum(c + row, 80).astype(a.dtype), c * 1), a[0] * 0, a)
        run.push(last, x.exact)
        run.push(rows, x.exact)


STEPS: dict[str, Callable[..., None]] = {
    "add": binary(lambda a, b: a + b),
    "sub": binary(lambda a, b: number_like(a) - number_like(b)),
    "mul": binary(lambda a, b: np.clip(number_like(a) * b, 0, 100)),
    "maximum": binary(np.maximum),
    "minimum": binary(np.minimum),
    "div": binary(lambda a, b: a / (np.abs(b * 1.0) + 1.0), exact=False),
    "floordiv": compared(lambda a, b: number_like(a) // (number_like(np.minimum(b, 9)) * 0 + 3)),
    "mod": compared(lambda a, b: number_like(a) % (number_like(np.minimum(b, 9)) * 0 + 3)),
    "equal": compared(lambda a, b: a == b),
    "less": compared(lambda a, b: a < b),
    "add number": with_number(lambda a, n: a + n),
    "subtract from": with_number(lambda a, n: 50 - a if n > 0 else a - 2),
    "negative": unary(lambda a: -number_like(a)),
    "abs": unary(np.abs),
    "square": unary(lambda a: np.square(np.clip(number_like(a), 0, 9))),
    "sqrt": unary(lambda a: np.sqrt(np.abs(a * 1.0)), exact=False),
    "exp": unary(lambda a: np.exp(-np.abs(a * 1.0)), exact=False),
    "tanh": unary(lambda a: np.tanh(a * 1.0), exact=False),
    "sin": unary(lambda a: np.sin(np.clip(a * 1.0, -50, 50)), exact=False),
    "float32": unary(lambda a: a.astype(np.float32)),
    "int": unary(lambda a: a if a.dtype.kind == "f" else a.astype(np.int64)),
    "sum": folded(lambda a, axis: np.clip(np.sum(a, axis=axis), 0, 1000)),
    "sum kept": folded(lambda a, axis: a.sum(axis=axis, keepdims=True)),
    "mean": folded(lambda a, axis: a.mean(axis=axis), exact=False, needs_elements=True),
    "var": folded(lambda a, axis: a.var(axis=axis), exact=False, needs_elements=True),
    "max": folded(lambda a, axis: a.max(axis=axis), needs_elements=True),
    "min kept": folded(lambda a, axis: np.min(a, axis=axis, keepdims=True), needs_elements=True),
    "argmax": folded(lambda a, axis: np.argmax(a, axis=axis), needs_exact=True, needs_elements=True),
    "cumsum": folded(lambda a, axis: np.clip(np.cumsum(a, axis=axis), 0, 1000)),
    "any": folded(lambda a, axis: np.any(a, axis=axis), needs_exact=True),
    "all of all": unary(lambda a: np.all(a == a)),
    "softmax": folded(lambda a, axis: _softmax(a * 1.0, axis), exact=False, needs_elements=True),
    "roll": folded(lambda a, axis: np.roll(a, 1, axis=axis)),
    "flip": folded(lambda a, axis: np.flip(a, axis=axis)),
    "diff": folded(lambda a, axis: np.diff(number_like(a), axis=axis)),
    "new axis": unary(lambda a: a[..., None]),
    "where": where, "slice": sliced, "update": update, "update view": update_view, "shift in place": shifted_in_place,
    "mask": masked, "gather": gathered, "range loop": looped, "loop over rows": loop_over_rows, "fori_loop": carried,
    "while_loop": repeated, "cond": chosen, "scan": scanned, "join": joined, "reshape": reshaped,
    "transpose": transposed, "product": product,
}  # fmt: skip


def _softmax(a: Any, axis: int) -> Any:
    e = np.exp(a - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """The values in an array of another layout."""
    if not values.ndim:
        return values
    match layout:
        case "F":
            return np.asfortranarray(values)
        case "reversed":
            return values[::-1].copy()[::-1]
        case "every other":
            wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            wide[..., ::2] = values
            return wide[..., ::2]
        case "offset":
            wide = np.zeros((values.shape[0] + 1, *values.shape[1:]), values.dtype)
            wide[1:] = values
            return wide[1:]
        case _:
            return np.ascontiguousarray(values)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[np.ndarray], list[tuple[str, int, int, int, float]], bool]:
    shapes = draw(st.sampled_from(SHAPES))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = [
        laid_out(rng.integers(0, 6, shape).astype(draw(st.sampled_from(DTYPES))), draw(st.sampled_from(LAYOUTS)))
        for shape in shapes
    ]
    places = st.integers(0, 40)
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(STEPS)), places, places, places, st.sampled_from([1.0, -2.0, 3.0, 0.5])),
            min_size=1,
            max_size=10,
        )
    )
    return arrays, steps, draw(st.booleans())


def program(
    steps: list[tuple[str, int, int, int, float]], in_place: bool, note: Callable[[Any], None], exact: list[bool]
) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        r = Run(list(arrays), note)
        for s in steps:
            r.step(*s)
        if in_place and arrays[0].ndim and 0 not in arrays[0].shape and arrays[0].dtype != np.bool_:
            arrays[0][slices(arrays[0].shape, 7)] += 1
            arrays[0][..., 0] = 2
        results = r.values[-4:]
        exact[:] = [v.exact for v in results]
        return tuple(v.array for v in results)

    return run


def check(
    case: tuple[list[np.ndarray], list[tuple[str, int, int, int, float]], bool], backend: str, **options: Any
) -> None:
    _, steps, in_place = case
    compare(tj.jit(program(steps, in_place, lambda a: None, []), backend=backend, redirect=False, **options), case)


def compare(jitted: Any, case: tuple[list[np.ndarray], list[tuple[str, int, int, int, float]], bool]) -> None:
    """Two calls, from Python and from the native entry, against NumPy."""
    arrays, steps, in_place = case
    largest, exact = [1.0], list[bool]()

    def note(a: Any) -> None:
        if np.size(a):
            largest[0] = max(largest[0], float(np.max(np.abs(np.asarray(a, np.float64)))))

    expected = [laid_out_like(a) for a in arrays]  # what is a view of what depends on the order
    with np.errstate(all="ignore"):
        want = program(steps, in_place, note, exact)(*expected)
    wide = all(a.dtype.itemsize > 2 and a.dtype != np.float32 for a in arrays)
    for call in range(2):
        given = [laid_out_like(a) for a in arrays]
        got = jitted(*given)
        for n, (g, w, e) in enumerate(zip(got, want, exact, strict=True)):
            what = f"result {n} of {steps}, call {call}"
            assert np.asarray(g).dtype == np.asarray(w).dtype, what
            assert np.shape(g) == np.shape(w), what
            if e or np.asarray(w).dtype.kind in "iub":
                np.testing.assert_array_equal(g, w, err_msg=what)
            else:
                unit = 1e-10 if wide and np.asarray(w).dtype == np.float64 else 2e-4
                np.testing.assert_allclose(g, w, rtol=unit, atol=unit * largest[0], err_msg=what)
        for g, w in zip(given, expected, strict=True):
            np.testing.assert_array_equal(g, w, err_msg=f"argument after {steps}, call {call}")


def laid_out_like(a: np.ndarray) -> np.ndarray:
    """A copy with the same strides."""
    if not a.ndim or not a.size:
        return a.copy()
    low = sum(min(0, s * (n - 1)) for s, n in zip(a.strides, a.shape, strict=True))
    high = sum(max(0, s * (n - 1)) for s, n in zip(a.strides, a.shape, strict=True)) + a.itemsize
    memory = np.zeros(high - low, np.uint8)
    made = np.ndarray(a.shape, a.dtype, memory, -low, a.strides)
    made[...] = a
    return made


def profile(examples: int) -> Callable[[Any], Any]:
    return settings(max_examples=max(1, examples), deadline=None, suppress_health_check=list(HealthCheck))


@profile(EXAMPLES)
@given(programs())
def test_cpu(record_backend: Callable[[str], None], case: Any):
    record_backend("cpu")
    check(case, "cpu")


@profile(EXAMPLES // 2)
@given(programs())
def test_reference(record_backend: Callable[[str], None], case: Any):
    record_backend("reference")
    check(case, "reference")


@profile(EXAMPLES // 4)
@given(programs())
def test_opencl(record_backend: Callable[[str], None], case: Any):
    record_backend("opencl")
    check(case, "opencl")


@profile(EXAMPLES // 4)
@given(programs())
def test_vulkan(record_backend: Callable[[str], None], case: Any):
    record_backend("vulkan")
    check(case, "vulkan")


@st.composite
def growing(draw: st.DrawFn) -> tuple[list[list[np.ndarray]], list[tuple[str, int, int, int, float]], bool]:
    """A program and its arguments at several sizes: the symbol is an extent of all, of some, or broadcast."""
    _, steps, in_place = draw(programs())
    shapes: Callable[[int], list[tuple[int, ...]]] = draw(
        st.sampled_from(
            [
                lambda n: [(n,), (n,), ()],
                lambda n: [(n, 3), (3,), (n, 1)],
                lambda n: [(2, n), (n,), (2, 1)],
                lambda n: [(n, n), (n,), (n, n)],
                lambda n: [(n, n + 1), (n + 1,), (n, 1)],
                lambda n: [(n,), (1,), (n,)],
            ]
        )
    )
    dtypes = [draw(st.sampled_from(DTYPES)) for _ in range(3)]
    layouts = [draw(st.sampled_from(LAYOUTS)) for _ in range(3)]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    sizes = draw(
        st.permutations(
            [*[draw(st.integers(5, 20)) for _ in range(3)], draw(st.integers(2, 4)), 1, 0, draw(st.integers(30, 70))]
        )
    )
    calls = [
        [laid_out(rng.integers(0, 6, s).astype(d), y) for s, d, y in zip(shapes(n), dtypes, layouts, strict=True)]
        for n in sizes
    ]
    return calls, steps, in_place


@profile(EXAMPLES)
@given(growing())
def test_symbolic_extents(case: Any):
    calls, steps, in_place = case
    jitted = tj.jit(program(steps, in_place, lambda a: None, []), redirect=False)
    for arrays in calls:
        compare(jitted, (arrays, steps, in_place))
