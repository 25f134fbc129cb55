"""The `except` that runs is the one that NumPy's error meets: its class is NumPy's, and its text as well."""

import contextlib
import linecache
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracerError, UnsupportedError

KINDS = (
    "ZeroDivisionError", "np.linalg.LinAlgError", "OverflowError", "IndexError", "KeyError", "AssertionError",
    "NotImplementedError", "AttributeError", "ValueError", "TypeError", "Exception",
)  # fmt: skip

STATEMENTS = """
np.average(x, weights=np.ones(3))
np.average(x, weights=np.zeros(3))
x[0] = "a"
x.fill("a")
np.arange()
np.tril(x[0])
x[::0]
y = np.arange(3); y -= x[:3]
np.linalg.matrix_power(np.ones((2, 3)), 2)
np.linalg.pinv(x)
x[[0, 1]] = np.ones(3)
x @= np.ones(3)
x.transpose(1, 0)
np.rot90(x)
np.fft.fft(x, axis=1)
x.reshape(7)
x + np.ones(5)
np.concatenate([x, x[None]])
np.stack([x, np.ones(9)])
np.linalg.inv(x)
x.sum(axis=3)
x[1, 2]
x[9]
x["a"]
x[1.5]
x @ np.ones((4, 4, 4))
np.zeros(-1)
np.ones(3) @ x[0]
x << 2
~x
np.bincount(x)
x.argmax(5)
np.take(x, 100)
np.split(x, 7)
np.linspace(0, 1, -3)
np.unravel_index(900, (3, 4))
assert len(x) == 3
int("a")
[1][4]
{}["a"]
np.sum(x, foo=1)
x.foo
np.foo
np.einsum("ij,jk", x, x)
np.interp(x, x, np.ones(7))
np.diag(np.ones((2, 2, 2)))
np.swapaxes(x, 0, 3)
np.expand_dims(x, 5)
np.squeeze(x[None], 1)
np.broadcast_to(x, (2, 7))
np.where(x > 0, x, np.ones(6))
np.select([x > 0], [x, x])
np.clip(x)
np.gradient(x[:1])
np.histogram(x, bins=-1)
np.pad(x, -1)
np.roll(x, 1, axis=4)
np.insert(x, 20, 1)
np.delete(x, 20)
np.cov(x, ddof=1.5)
np.percentile(x, 101)
x.astype("foo")
np.put(x, [20], 1)
x.reshape(-1, -1)
np.arange(0, 1, 0)
np.eye(-2)
np.convolve(x, [])
np.trace(x)
np.linalg.norm(x, axis=3)
np.linalg.det(np.ones((2, 3)))
np.linalg.cholesky(x)
np.add(x, x, out=np.ones(9))
np.add(x, x, dtype=int)
np.isnan("a")
x += 1j
x[:3] += np.ones(2)
x[:, 0]
x[[True, False]]
x[x[None] > 0]
len(x[0])
iter(x[0])
float(x)
bool(x)
x.dot(np.ones(11))
x.item(7)
hash(x)
x()
del x[0]
""".strip().split("\n")


def made(text: str) -> Any:
    """The function of a text, whose lines the tracer can read."""
    name = f"<{__name__} {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict[str, Any] = {"np": np, "contextlib": contextlib}
    exec(compile(text, name, "exec"), names)
    return names["f"]


def outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except Exception as error:
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_except_that_runs(statement: str):
    handlers = "\n".join(f"    except {kind}:\n        r = -{n + 1}.0" for n, kind in enumerate(KINDS))
    f = made(f"def f(x):\n    r = 0.0\n    try:\n        {statement}\n{handlers}\n    return x * 1 + r\n")
    compiled = tj.jit(f)
    for size in (3, 4, 4, 1, 0, 2, 5):
        x = np.arange(1.0, size + 1)
        wanted, found = outcome(f, x.copy()), outcome(compiled, x.copy())
        if isinstance(found, TracerError) and "an exception leaves the compiled function" in str(found):
            assert "weights" in statement
            continue
        np.testing.assert_array_equal(found, wanted, err_msg=f"{size} elements")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "statement", ["x.reshape(7)", "x + np.ones(5)", "x.sum(axis=3)", "np.linalg.inv(x)", "x @ np.ones((4, 4, 4))"]
)
def test_its_text(statement: str):
    f = made(
        f"def f(x, out):\n    try:\n        {statement}\n    except Exception as error:\n"
        "        out.append((type(error).__name__, str(error)))\n    return x\n"
    )
    given: list[Any] = []
    traced: list[Any] = []
    f(np.ones(3), given)
    tj.jit(lambda x: f(x, traced))(np.ones(3))
    assert traced == given


@pytest.mark.parametrize(
    "statement",
    ["y = x.sum(); y.fill(1.0)", "np.median(x * 1j)", "x.__contains__(1)"],
)
@pytest.mark.parametrize(
    "around",
    [
        "try:\n        {}\n    except Exception:\n        return -1.0",
        "with contextlib.suppress(TypeError):\n        {}",
    ],
)
def test_what_numpy_takes_is_refused(around: str, statement: str):
    """And not handled as if NumPy had refused it."""
    f = made(f"def f(x):\n    {around.format(statement)}\n    return x\n")
    f(np.ones(3))
    with pytest.raises(TracerError, match="NumPy takes it"):
        tj.jit(f)(np.ones(3))


def on_one_side(x: Any) -> Any:
    r = 0.0
    if x.sum() > 6:
        r = x.reshape(2, -1).sum()
    return r + 1


def on_one_side_caught(x: Any) -> Any:
    try:
        return on_one_side(x)
    except ValueError:
        return -1.0


def on_one_side_caught_within(x: Any) -> Any:
    r = 0.0
    if x.sum() > 6:
        try:
            r = x.reshape(2, -1).sum()
        except ValueError:
            r = -1.0
    return r + 1


def test_an_error_of_a_side_comes_where_the_side_is_taken():
    compiled = tj.jit(on_one_side)
    assert compiled(np.ones(3)) == 1.0
    with pytest.raises(ValueError, match="reshape"):
        compiled(np.ones(3) * 3)
    assert compiled(np.ones(4) * 3) == 13.0
    with pytest.raises(TracerError, match="leaves the compiled function"):
        tj.jit(on_one_side_caught)(np.ones(3))
    within = tj.jit(on_one_side_caught_within)
    for x in (np.ones(3), np.ones(3) * 3, np.ones(4), np.ones(4) * 3, np.ones(5) * 3):
        assert within(x) == on_one_side_caught_within(x)


ASSERTED = {
    "here": """
def f(x):
    try:
        assert x[0] < 1
    except AssertionError:
        return -1.0
    return 1.0
""",
    "in a helper": """
def check(v):
    assert (v < 1).all(), "too much"

def f(x):
    try:
        check(x)
    except Exception:
        return -1.0
    return 1.0
""",
    "within a manager": """
def f(x):
    with contextlib.suppress(AssertionError):
        assert x[0] < 1
        return 1.0
    return -1.0
""",
}  # pytest rewrites the assertions of this module


@pytest.mark.parametrize("name", ASSERTED)
def test_assertions_that_are_caught_are_refused(name: str):
    with pytest.raises(TracerError, match=r"AssertionError.* is known to the program alone"):
        tj.jit(made(ASSERTED[name]))(np.array([2.0, 3.0]))


def test_assertions_that_another_class_is_caught_around():
    compiled = tj.jit(made(ASSERTED["here"].replace("except AssertionError", "except KeyError")))
    assert compiled(np.zeros(2)) == 1.0
    with pytest.raises(AssertionError):
        compiled(np.ones(2))


OF_COUNTERS = """
def f(x):
    r = 0.0
    try:
        for k in range(len(x)):
            assert k < 3, k
            r += x[k]
    except AssertionError as error:
        r -= error.args[0]
    return r
"""


def test_assertions_of_counters():
    f = made(OF_COUNTERS)
    compiled = tj.jit(f)
    for size in (2, 3, 4, 4, 5, 1, 0):
        x = np.arange(1.0, size + 1)
        assert compiled(x) == f(x)


def quotient(a: Any, b: Any) -> Any:
    try:
        return a / b
    except ZeroDivisionError:
        return 0.0


def remainder(a: Any, b: Any) -> Any:
    try:
        return divmod(a, b)[1] + a // b
    except ArithmeticError:
        return -1.0


def logarithm(a: Any, b: Any) -> Any:
    try:
        return math.log(a - b)
    except ValueError:
        return -np.inf


def root(a: Any, b: Any) -> Any:
    try:
        return math.sqrt(a) + math.acos(b)
    except Exception:
        return -1.0


def exponential(a: Any, b: Any) -> Any:
    try:
        return math.exp(a * 1000) / (b + 1)
    except OverflowError:
        return np.inf


NUMBERS = [(1.0, 2.0), (1.0, 0.0), (3, 0), (-2.0, 0.5), (0.0, 0), (2, 1)]


@pytest.mark.parametrize("f", [quotient, remainder, logarithm, root, exponential])
def test_errors_of_pythons_arithmetic_on_arguments(f: Any):
    compiled = tj.jit(f)
    for a, b in [*NUMBERS, *NUMBERS]:
        try:
            wanted = f(a, b)
        except ZeroDivisionError:
            continue
        assert compiled(a, b) == wanted, (a, b)


@pytest.mark.parametrize("f", [quotient, remainder, logarithm, root, exponential])
def test_errors_of_pythons_arithmetic_on_data_are_refused(f: Any):
    with pytest.raises(TracerError, match="is known to the program alone"):
        tj.jit(lambda x: f(float(x[0]), float(x[1])))(np.ones(2))


def test_division_by_a_constant_zero():
    with pytest.raises(ZeroDivisionError):
        tj.jit(lambda a: a / 0)(2.0)
    assert tj.jit(lambda a: quotient(a, 0))(2.0) == 0.0


def left_by_a_break(x: Any) -> Any:
    n = 0
    for k in range(5):
        try:
            n += x[k]
        finally:
            if k == 2:
                break  # noqa: B012
    return n


def in_the_body_of_a_class(x: Any) -> Any:
    class K:
        try:
            y = np.interp(0.5, np.arange(3.0), x)
        except Exception:
            y = -1.0

    return K.y


@pytest.mark.parametrize("f", [left_by_a_break, in_the_body_of_a_class])
def test_what_begins_the_trace_again_is_not_caught(f: Any):
    compiled = tj.jit(f)
    for size in (5, 3, 4, 4, 3, 6):
        x = np.arange(1.0, size + 1) * 10
        assert compiled(x) == f(x)


def test_comparison_with_what_no_element_is():
    for f in (lambda x: x == None, lambda x: x != "a", lambda x: None == x, lambda x: (x == "a").sum()):  # noqa: E711
        for x in (np.ones(3), np.ones((2, 0)), np.arange(4)):
            np.testing.assert_array_equal(tj.jit(f)(x), f(x))


def test_none_put_into_floats():
    def f(x: Any) -> Any:
        x[1:] = None
        return x

    np.testing.assert_array_equal(tj.jit(f)(np.ones(3)), f(np.ones(3)))
    with pytest.raises(TypeError):
        tj.jit(f)(np.ones(3, np.int64))


def test_a_method_that_is_not_supported_is_there():
    f = lambda x: x * len(getattr(x, "strides", ()))  # noqa: E731
    with pytest.raises(UnsupportedError):
        tj.jit(f)(np.ones(3))
    assert tj.jit(lambda x: getattr(x, "foo", 7))(np.ones(3)) == 7


def test_values_beside_differences_may_be_the_array_itself():
    for f in (lambda x: np.ediff1d(x, to_end=x), lambda x: np.ediff1d(x, to_begin=x, to_end=x)):
        np.testing.assert_array_equal(tj.jit(f)(np.array([5, 1, 7])), f(np.array([5, 1, 7])))


def _taken(x, k):
    return x[k]


def by_a_variable(x):
    try:
        return _taken(np.arange(3.0), 3)
    except Exception as error:
        return [type(error).__name__]


def compared_by_a_variable(x):
    y = np.ones(len(x) + 1)
    try:
        return bool((x < y).any())
    except Exception as error:
        return [type(error).__name__]


@pytest.mark.parametrize("f", [by_a_variable, compared_by_a_variable])
def test_what_is_rewritten_raises_the_same_class(f: Callable[..., Any]):
    x = np.ones(4)
    assert tj.jit(f)(x) == f(x)


@pytest.mark.parametrize(
    "operation",
    [
        lambda v: 2.0 ** (v * 1000),
        lambda v: 0.0**-v,
        lambda v: 5 << -int(v),
        lambda v: math.sin(v),
        lambda v: math.pow(v, 400.0),
        lambda v: math.gamma(v),
    ],
)
def test_errors_of_numbers_that_an_except_waits_for(operation: Callable[[Any], Any]):
    def f(x):
        try:
            return operation(float(x[0]))
        except (OverflowError, ZeroDivisionError, ValueError):
            return -1.0

    with pytest.raises(TracerError, match="known to the program alone"):
        tj.jit(f)(np.array([2.0]))


class Stop(BaseException):
    pass


def stopped(x):
    for v in x:
        if v > 2:
            raise Stop(v)
    return x.sum()


def exited(x):
    if x[0] > 0:
        sys.exit("diverged")
    return x.sum()


@pytest.mark.parametrize(("f", "kind"), [(stopped, Stop), (exited, SystemExit)])
def test_exceptions_that_are_no_errors(f: Callable[..., Any], kind: type[BaseException]):
    compiled = tj.jit(f)
    assert compiled(np.array([-1.0, 1.0])) == 0.0
    with pytest.raises(kind):
        compiled(np.array([1.0, 3.0]))
    assert compiled(np.array([-2.0, 1.0])) == -1.0


def test_nor_does_a_handler_of_them_run():
    def f(x):
        try:
            return exited(x)
        except SystemExit:
            return -1

    with pytest.raises(TracerError, match="SystemExit"):
        tj.jit(f)(np.array([-1.0]))
