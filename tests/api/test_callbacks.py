"""Functions of Python's that compiled programs call, on every backend that is here."""

import functools
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.plain_c import EVERY_BACKEND
from tracejit.support.errors import DtypeError, ShapeError, UnsupportedError, UserError

NUMBER = tj.ShapeDtypeStruct((), np.float64)
FLAG = tj.ShapeDtypeStruct((), np.bool_)

pytestmark = [pytest.mark.opencl, pytest.mark.filterwarnings("ignore:.*was compiled for:UserWarning")]


@pytest.fixture(params=EVERY_BACKEND)
def backend(request: pytest.FixtureRequest, record_backend: Any) -> str:
    record_backend(request.param)
    return request.param


def jitted(backend: str) -> Any:
    return tj.jit(backend=backend)


def test_it_gets_the_elements_of_each_call_at_every_size(backend: str):
    seen: list[Any] = []

    def own(x: Any, scale: Any) -> Any:
        seen.append((x.copy(), scale))
        return np.sin(x) * scale

    @jitted(backend)
    def f(x: Any) -> Any:
        y = x[::-1] * 2
        return tj.pure_callback(own, tj.ShapeDtypeStruct(x.shape, x.dtype), y, scale=x.shape[0]) + x

    for n in (4, 7, 4, 1, 2, 0, 4):
        for dtype in (np.float64, np.float32):
            x = np.linspace(0.5, 1, n, dtype=dtype)
            got = f(x)
            assert got.dtype == dtype
            np.testing.assert_allclose(got, np.sin(x[::-1] * 2) * n + x, rtol=1e-6)
            (given, scale) = seen.pop()
            assert np.array_equal(given, x[::-1] * 2)
            assert scale == n
            assert not seen


def test_calls_are_in_the_order_of_the_program_and_as_many_as_it_says(backend: str):
    seen: list[Any] = []

    @jitted(backend)
    def f(x: Any, n: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            tj.debug.callback(lambda: seen.append("begin"))
            s += x[i]
            if s > n:
                tj.io_callback(lambda i, s: seen.append((int(i), float(s))), None, i, s)
                if s > 2 * n:
                    break
        tj.debug.callback(lambda s: seen.append(float(s)), s)
        return s

    def plain(x: Any, n: Any) -> list[Any]:
        out: list[Any] = []
        s = 0.0
        for i in range(len(x)):
            out.append("begin")
            s += x[i]
            if s > n:
                out.append((i, s))
                if s > 2 * n:
                    break
        return [*out, s]

    for size in (3, 12, 40, 0, 3):
        for n in (1.0, 5.0, 1000.0):
            x = np.arange(float(size))
            f(x, n)
            assert seen == plain(x, n)
            seen.clear()


def test_a_while_loop_may_depend_on_what_it_gives(backend: str):
    answers = [True, True, False]

    @jitted(backend)
    def f(x: Any) -> Any:
        n = 0
        while tj.io_callback(lambda v: answers.pop(0), FLAG, x + n):
            n += 1
        return n

    assert f(0.5) == 2


def test_what_it_raises_leaves_the_function_and_nothing_is_called_after_it(backend: str):
    class Mine(Exception):
        pass

    seen: list[float] = []

    def own(v: Any) -> Any:
        seen.append(float(v))
        if v > 2:
            raise Mine(float(v))
        return v

    @jitted(backend)
    def f(x: Any) -> Any:
        s = 0.0
        for v in x:
            s += tj.pure_callback(own, NUMBER, v)
        tj.debug.callback(lambda: seen.append(-1.0))
        return s

    assert f(np.array([1.0, 2.0])) == 3
    assert seen == [1, 2, -1]
    seen.clear()
    x = np.array([1.0, 3.0, 4.0, 1.0])
    for _ in range(2):
        with pytest.raises(Mine) as error:
            f(x)
        assert error.value.args == (3.0,)
        assert seen == [1, 3]
        assert any("s += tj.pure_callback(own, NUMBER, v)" in note for note in error.value.__notes__)
        seen.clear()
    with pytest.raises(Mine):
        tj.jit(tj.vmap(f), backend=backend)(np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 1.0]]))
    assert seen[:2] == [1, 3]  # the first column up to the one that fails


def test_a_loop_that_waits_for_one_that_has_failed_ends(backend: str):
    @jitted(backend)
    def f(x: Any) -> Any:
        go = x > 0
        while go:
            go = ~tj.io_callback(lambda: 1 // 0, FLAG)
        return x

    with pytest.raises(ZeroDivisionError):
        f(1.0)


def test_an_index_that_was_out_of_range_before_it_keeps_it_from_being_called():
    seen: list[Any] = []

    @tj.jit
    def f(x: Any, k: Any) -> Any:
        y = x[k]
        tj.debug.callback(lambda v: seen.append(v), y)
        return y

    assert f(np.arange(3.0), 1) == 1
    assert seen == [1]
    with pytest.raises(IndexError):
        f(np.arange(3.0), 3)
    assert seen == [1]


def test_interrupts_leave_the_function():
    def own() -> None:
        raise KeyboardInterrupt

    @tj.jit
    def f(x: Any) -> Any:
        tj.debug.callback(own)
        return x

    with pytest.raises(KeyboardInterrupt):
        f(1.0)


def test_only_the_side_that_is_taken_calls(backend: str):
    seen: list[str] = []

    @jitted(backend)
    def f(x: Any) -> Any:
        if x > 1:
            tj.debug.callback(lambda: seen.append("above"))
        else:
            tj.debug.callback(lambda: seen.append("below"))
        return tj.lax.cond(
            x > 3, lambda v: tj.pure_callback(lambda u: seen.append("far") or u, NUMBER, v), lambda v: v, x
        )

    for x, want in ((0.5, ["below"]), (2.0, ["above"]), (4.0, ["above", "far"])):
        assert f(x) == x
        assert seen == want
        seen.clear()


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("method", [None, "sequential", "expand_dims", "broadcast_all", "legacy_vectorized"])
def test_vmap(method: str | None, within: bool):
    shapes: list[Any] = []

    def own(a: Any, b: Any) -> Any:
        shapes.append((np.shape(a), np.shape(b)))
        return a * b

    def f(a: Any, b: Any) -> Any:
        return tj.pure_callback(own, tj.ShapeDtypeStruct((2,), np.float64), a, b, vmap_method=method)

    a, b = np.arange(6.0).reshape(3, 2), np.array([2.0, -1.0])
    mapped: Any = tj.vmap(f, in_axes=(0, None))
    got = (tj.jit(mapped) if within else mapped)(a, b)
    assert np.array_equal(got, a * b)
    wanted = {
        "expand_dims": [((3, 2), (1, 2))],
        "broadcast_all": [((3, 2), (3, 2))],
        "legacy_vectorized": [((3, 2), (2,))],
    }
    assert shapes == wanted.get(method or "", [((2,), (2,))] * 3)
    twice: Any = tj.vmap(tj.vmap(f, in_axes=(0, None)), in_axes=(None, 0))
    if method != "legacy_vectorized":
        c = np.array([[1.0, 2.0], [3.0, 4.0]])
        assert np.array_equal((tj.jit(twice) if within else twice)(a, c), a[None] * c[:, None])


def _inverse(q: Any) -> Any:
    if q <= 0:
        raise ValueError(f"{q} has none")
    return 1 / np.float64(q)


def _guarded(seen: list[Any], n: Any) -> Any:
    return tj.pure_callback(_inverse, NUMBER, n) if n > 0 else n


def _in_a_branch(seen: list[Any], n: Any) -> Any:
    if n > 1:
        tj.io_callback(seen.append, None, n)
    return n * 2


def _without_operands(seen: list[Any], n: Any) -> Any:
    if n > 1:
        tj.io_callback(lambda: seen.append(7.0), None)
    return n


def _in_a_loop_with_a_break(seen: list[Any], n: Any) -> Any:
    s = 0.0
    for i in range(6):
        if i >= n:
            break
        tj.io_callback(lambda n, i: seen.append(10.0 * n + i), None, n, i)
        s += i
    return s


def _in_loops_in_a_branch_in_a_loop(seen: list[Any], n: Any) -> Any:
    s = 0.0
    while n > 0:
        n = n - 1
        if n > 1:
            for k in range(2):
                s += tj.pure_callback(_inverse, NUMBER, n)
                if k * n > 1:
                    tj.debug.callback(lambda n: seen.append(n), n)
    return s


def _after_a_return(seen: list[Any], n: Any) -> Any:
    if n > 2:
        return 0.0 * n
    if n == 1:
        for _ in range(2):
            tj.io_callback(seen.append, None, n)
    return n * 2


def _mapped_again(seen: list[Any], x: Any) -> Any:
    def inner(y: Any) -> Any:
        if y > x:
            tj.io_callback(lambda x, y: seen.append(10.0 * x + y), None, x, y)
        return y

    return tj.vmap(inner)(np.arange(3.0)).sum() + x if x > 0 else x


@pytest.mark.parametrize(
    "own",
    [
        _guarded, _in_a_branch, _without_operands, _in_a_loop_with_a_break, _in_loops_in_a_branch_in_a_loop,
        _after_a_return, _mapped_again,
    ],
)  # fmt: skip
def test_mapped_programs_call_for_the_elements_that_get_there(own: Any, backend: str):
    seen: list[Any] = []
    mapped: Any = tj.vmap(functools.partial(own, seen))
    for x in (np.array([0.0, 1.0, 3.0, 2.0]), np.array([3.0, 0.0, 1.0])):
        wanted: list[Any] = []
        want = [own(wanted, v) for v in x]
        for function in (mapped, jitted(backend)(mapped)):
            seen.clear()
            np.testing.assert_allclose(function(x), want)
            assert sorted(seen) == sorted(wanted)


def test_what_a_mapped_element_raises_leaves_the_function(backend: str):
    with pytest.raises(ValueError, match=r"-1.0 has none"):
        jitted(backend)(tj.vmap(lambda v: tj.pure_callback(_inverse, NUMBER, v) if v < 0 else v))(
            np.array([2.0, -1.0, 0.0])
        )


def _asked(read: Any, x: Any) -> Any:
    r = read()
    return x * 10 if r > 1.5 else x + r


def _counted(read: Any, x: Any) -> Any:
    s = 0.0
    for _ in range(int(read())):
        s += x
    return s


def _as_long(read: Any, x: Any) -> Any:
    return np.ones(9)[: int(read())].sum() + x


def _until(read: Any, x: Any) -> Any:
    k = read()
    while k > 0:
        k = k - 1
        x = x + 1
    return x


def _stored(read: Any, x: Any) -> Any:
    z = np.zeros(2)
    z[0] = read()
    if z[0] > 2.5:
        z[1] = 5
    return z.sum() + x


def _each_time(read: Any, x: Any) -> Any:
    s = 0.0
    for _ in range(3):
        if read() > 1.5:
            s += x
    return s


@pytest.mark.parametrize("own", [_asked, _counted, _as_long, _until, _stored, _each_time])
def test_what_it_gives_without_operands_is_known_to_no_trace(own: Any):
    state, calls = [1.0], [0]

    def read() -> Any:
        calls[0] += 1
        return np.float64(state[0])

    f = tj.jit(lambda x: own(lambda: tj.io_callback(read, NUMBER), x))
    for number in (1.0, 2.0, 3.0, 1.0):
        state[0] = number
        want, expected = own(read, 2.0), calls[0]
        calls[0] = 0
        assert f(2.0) == want
        assert calls[0] == expected
        calls[0] = 0


def test_it_gets_arrays_as_long_as_data_say(backend: str):
    seen: list[Any] = []

    @jitted(backend)
    def f(x: Any) -> Any:
        p = x[x > 0]
        tj.debug.callback(lambda p, n: seen.append((p.tolist(), n)), p, len(p))
        return tj.pure_callback(lambda q: q * 2, tj.ShapeDtypeStruct(p.shape, p.dtype), p)

    for x in (np.arange(5.0) - 1, 1 - np.arange(5.0), np.arange(9.0), np.zeros(0)):
        p = x[x > 0]
        np.testing.assert_array_equal(f(x), p * 2)
        assert seen.pop() == (p.tolist(), len(p))


def test_numbers_of_pythons_arrive_as_such(capsys: pytest.CaptureFixture[str]):
    @tj.jit
    def f(x: Any, n: Any) -> Any:
        tj.debug.print("{} {} {} {!r}", x.shape, [x[0], 2], n, x.sum())
        return x

    for n in (3, 5, 4):
        f(np.ones(n), 2)
        assert capsys.readouterr().out == f"({n},) [np.float64(1.0), 2] 2 np.float64({n}.0)\n"


def test_results_of_rank_0_are_scalars_outside_of_a_trace_too():
    made = tj.io_callback(lambda: np.array(1.5), NUMBER)
    assert type(made) is np.float64
    assert made == 1.5


def test_the_first_call_of_a_process_may_be_one():
    program = "import numpy as np, tracejit as tj; tj.debug.print('x {}', np.float64(1.5))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "x 1.5\n"


def test_derivatives_pass_by_what_only_looks_and_refuse_the_others():
    seen: list[Any] = []

    def looked(x: Any) -> Any:
        y = x * x
        tj.debug.callback(lambda v: seen.append(v.copy()), y)
        return y.sum()

    x = np.array([1.0, 3.0])
    for f in (
        tj.grad(looked),
        tj.jit(tj.grad(looked)),
        tj.grad(tj.jit(looked)),
        tj.jit(tj.grad(tj.checkpoint(looked))),
    ):
        assert np.array_equal(f(x), 2 * x)
        assert len(seen) == 1
        assert np.array_equal(seen.pop(), x * x)
    assert np.array_equal(tj.hessian(looked)(x), 2 * np.eye(2))
    assert seen
    with pytest.raises(UnsupportedError, match="has no derivative; call it in a function with a rule of its own"):
        tj.grad(lambda v: tj.pure_callback(np.sin, NUMBER, v))(1.0)
    assert tj.grad(lambda v: v * tj.pure_callback(np.sin, NUMBER, tj.lax.stop_gradient(v)))(1.0) == np.sin(1.0)

    @tj.custom_jvp
    def sine(v: Any) -> Any:
        return tj.pure_callback(np.sin, NUMBER, v)

    sine.defjvp(lambda primals, tangents: (sine(*primals), tj.pure_callback(np.cos, NUMBER, *primals) * tangents[0]))
    for f in (tj.grad(sine), tj.jit(tj.grad(sine))):
        assert f(0.5) == np.cos(0.5)


@pytest.mark.parametrize(
    ("own", "error", "text"),
    [
        (lambda v: np.ones(3), ShapeError, r"shape \(3,\); it was said to give \(\)"),
        (lambda v: 1j, DtypeError, "complex128; it was said to give float64"),
        (lambda v: (v, v), UserError, "it was said to give"),
        (lambda v: None, UserError, "gives None"),
    ],
)
def test_results_that_are_not_what_was_said_are_errors(own: Any, error: Any, text: str):
    for call in (lambda x: tj.pure_callback(own, NUMBER, x), tj.jit(lambda x: tj.pure_callback(own, NUMBER, x))):
        with pytest.raises(error, match=text):
            call(1.0)


def test_it_takes_and_gives_pytrees():
    @tj.jit
    def f(x: Any) -> Any:
        return tj.pure_callback(
            lambda d, k, name: {"a": d["x"] + k, "b": (np.int32(len(name)), None)},
            {"a": x, "b": (tj.ShapeDtypeStruct((), np.int32), None)},
            {"x": x}, 2, name="four",
        )  # fmt: skip

    got = f(np.arange(3))
    assert np.array_equal(got["a"], [2, 3, 4])
    assert got["b"][0] == 4
    assert got["b"][1] is None


def test_what_it_gets_is_its_own():
    kept: list[Any] = []

    @tj.jit
    def f(x: Any) -> Any:
        y = x + 1
        tj.debug.callback(lambda v: (kept.append(v), v.fill(9)), y)
        y[0] = 5
        tj.debug.callback(lambda v: kept.append(v), y)
        return y

    x = np.zeros(2)
    assert np.array_equal(f(x), [5, 1])
    assert np.array_equal(f(x), [5, 1])
    assert not x.any()
    assert np.array_equal(kept[0], [9, 9])
    assert np.array_equal(kept[1], [5, 1])


def test_functions_are_those_outside_of_the_trace():
    log: list[Any] = []
    total = 0

    class Log:
        def __init__(self) -> None:
            self.items: list[Any] = []

        def put(self, v: Any) -> None:
            self.items.append(v)

    own = Log()

    def counted(v: Any) -> None:
        nonlocal total
        total += 1

    @tj.jit
    def f(x: Any) -> Any:
        k = 1
        s = x.sum()
        tj.debug.callback(counted, s)
        tj.debug.callback(lambda v: log.append((k, v)), s)
        k = 2
        tj.debug.callback(lambda v, at=k: log.append((k, at)), s)
        tj.debug.callback(own.put, s)
        tj.debug.callback(functools.partial(own.items.insert, 0), s)
        return s

    for n in range(1, 4):
        log.clear()
        f(np.ones(2))
        assert log == [(1, 2.0), (2, 2)]
        assert total == n
        assert own.items == [2.0] * (2 * n)


def test_a_function_that_reads_a_traced_array_is_refused():
    @tj.jit
    def f(x: Any) -> Any:
        y = x * 2
        tj.debug.callback(lambda: print(y))
        return x

    with pytest.raises(UnsupportedError, match=r"reads a traced array .*; give it as an argument"):
        f(np.ones(3))


def test_programs_may_call_each_other():
    @tj.jit
    def down(x: Any) -> Any:
        def rest(v: Any) -> Any:
            return np.zeros_like(v) if v[0] <= 0 else down(v - 1)

        return x + tj.pure_callback(rest, x, x)

    assert np.array_equal(down(np.array([4.0, 5.0])), [10, 15])


def test_threads_have_their_own():
    gone: list[bool] = []

    def own(v: Any) -> Any:
        if v < 0:
            raise ValueError(float(v))
        return v * 2

    f = tj.jit(lambda x: tj.pure_callback(own, NUMBER, x) + 1)

    def work(k: int) -> None:
        for n in range(200):
            value = float(k * 1000 + n)
            if n % 3:
                gone.append(f(value) == 2 * value + 1)
            else:
                try:
                    f(-value - 1)
                except ValueError as error:
                    gone.append(error.args == (-value - 1,))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(gone) == 800
    assert all(gone)


def test_print(capsys: pytest.CaptureFixture[str]):
    @tj.jit
    def f(x: Any) -> Any:
        tj.debug.print("{} of {n} {name}: {x[0]:.2f} {{}}", len(x), n=x.sum(), name="x", x=x)
        return x

    f(np.array([1.0, 2.0]))
    f(np.array([1.0, 2.0, 4.0]))
    assert capsys.readouterr().out == "2 of 3.0 x: 1.00 {}\n3 of 7.0 x: 1.00 {}\n"
    for text, args, named in (("{}", (), {}), ("{x}", (), {"y": 1}), ("{1}", (1,), {}), ("{", (), {}), (3, (), {})):
        with pytest.raises(UserError, match=r"tj\.debug\.print: "):
            tj.debug.print(text, *args, **named)  # type: ignore[arg-type]


def test_bad_options_are_errors():
    with pytest.raises(UserError, match="vmap_method"):
        tj.pure_callback(np.sin, NUMBER, 1.0, vmap_method="all")
    with pytest.raises(UserError, match="a result is said to be 3"):
        tj.pure_callback(np.sin, 3, 1.0)
    with pytest.raises(UserError, match="sharding"):
        tj.io_callback(np.sin, NUMBER, 1.0, sharding=3)  # type: ignore[arg-type]
    with pytest.raises(UserError):
        tj.debug.callback(3, 1.0)  # type: ignore[arg-type]
    assert tj.experimental.io_callback is tj.io_callback


def test_programs_that_are_dropped_take_what_they_call_along():
    import gc
    import weakref

    class Own:
        def __call__(self, v: Any) -> Any:
            return v

    def made() -> Any:
        own = Own()
        f = tj.jit(lambda x: tj.pure_callback(own, NUMBER, x))
        assert f(2.0) == 2
        return weakref.ref(own)

    left = [made() for _ in range(150)]
    gc.collect()
    assert sum(x() is not None for x in left) < 140  # a table keeps some of the last functions for a while


def test_disable_jit():
    same: Any = tj.jit(lambda x: x)
    placed: Any = tj.jit(lambda x: same(x), backend="cpu")
    x = np.ones(3)
    for f in (same, placed):
        assert not any(f(x) is x for _ in range(3))  # compiled functions give new arrays
    with tj.disable_jit():
        assert same(x) is x
        assert placed(x) is x
        with tj.disable_jit(False):
            assert same(x) is not x
            assert placed(x) is not x
        elsewhere: list[Any] = []
        other = threading.Thread(target=lambda: elsewhere.append(same(x)))
        other.start()
        other.join()
        assert elsewhere[0] is not x  # it holds in its own thread
        with tj.default_device("reference"):
            assert same(x) is x
            assert placed(x) is x
        assert np.array_equal(tj.grad(lambda v: same(v).sum())(x), x)
    with tj.default_device("reference"), tj.disable_jit():
        assert same(x) is x
        assert placed(x) is x
    assert same(x) is not x
    assert placed(x) is not x
    with pytest.raises(UserError, match="disable_jit: disable is 3"), tj.disable_jit(3):  # type: ignore[arg-type]
        pass


def test_closure_convert():
    def slope(a: Any, b: Any) -> Any:
        line, values = tj.closure_convert(lambda x, k: {"y": k * a * x + b}, 1.0, 2)
        assert len(values) == 2
        return line(3.0, 2, *[2 * v for v in values])["y"]

    for f in (tj.grad(slope, (0, 1)), tj.jit(tj.grad(slope, (0, 1)))):
        assert tuple(map(float, f(5.0, 1.0))) == (12.0, 2.0)
    plain, values = tj.closure_convert(lambda x: x + 1, 1.0)
    assert values == []
    assert plain(2.0) == 3
    with pytest.raises(UserError, match="takes arguments like those it was converted for"):
        plain(1.0, 2.0)
