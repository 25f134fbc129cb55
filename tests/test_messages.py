"""What errors say: the user's line, what asks for what cannot be had,
and something to write instead that is really there."""

import ast
import builtins
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import tracejit as tj
import tracejit.numpy
from tracejit.support.errors import (
    ConcretizationError,
    DtypeError,
    ShapeError,
    TracejitError,
    UnsupportedError,
    UserError,
)
from tracejit.tracer.substitutes import REDIRECTED
from tracejit.tracer.tables import FUNCTIONS, METHODS, UFUNCS
from tracejit.tracer.tracer import Tracer

PACKAGE = Path(tj.__file__).parent
X = np.array([1.0, -2.0, 3.0])


def failure(function: Callable[..., Any], *args: Any) -> Any:
    with pytest.raises(TracejitError) as error:
        tj.jit(function)(*args)
    return error.value


def marked(error: Any) -> str:
    """The underlined part of the user's line."""
    lines = str(error).splitlines()
    assert lines[1].startswith("  at test_messages.py:"), str(error)
    if len(lines) < 4 or set(lines[3].strip()) != {"^"}:
        return ""
    return lines[2][lines[3].index("^") : lines[3].rindex("^") + 1]


# -- advice ------------------------------------------------------------------------------------------------------------
def texts() -> Iterator[tuple[str, str]]:
    """(place, text) of every string in the package but docstrings and the keys of dicts."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        skipped = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        skipped |= {id(key) for n in ast.walk(tree) if isinstance(n, ast.Dict) for key in n.keys}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
                yield f"{path.name}:{node.lineno}", node.value


def resolved(name: str) -> Any:
    found: Any = {"tj": tj, "np": np}[name.split(".")[0]]
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def is_there(thing: Any) -> bool:
    """Whether traced code may use something of NumPy's."""
    owner = getattr(thing, "__self__", None)  # of a ufunc's method
    known = thing in FUNCTIONS or thing in UFUNCS or (isinstance(owner, np.ufunc) and (owner, thing.__name__) in UFUNCS)
    return known or id(thing) in REDIRECTED or not callable(thing) or isinstance(thing, type)


def test_every_function_that_a_message_names_is_there():
    """`tj.f`, `np.f` and `x.f(` in the package's messages."""
    checked = set[str]()
    for place, text in texts():
        for name in re.findall(r"(?<![\w.])((?:tj|np)(?:\.[A-Za-z_]\w*)+)(?!\w*\.\{)", text):
            if text.startswith(name + ".") and text == name + ".":  # "np.random." before a name
                continue
            thing = resolved(name)
            assert name.startswith("tj.") or is_there(thing), f"{place}: traced code has no {name}"
            checked.add(name)
        for name in re.findall(r"(?<![\w.])[xy]\.([A-Za-z_]\w*)\(", text):
            assert name in METHODS or hasattr(Tracer, name), f"{place}: traced arrays have no method {name}"
            checked.add(f"x.{name}")
    assert {
        "tj.lax.cond",
        "tj.range",
        "tj.lax.while_loop",
        "tj.vmap",
        "np.where",
        "np.any",
        "np.minimum",
        "x.astype",
        "x.copy",
    } <= checked
    assert len(checked) > 60


def test_methods_that_exist_are_refused_by_no_one():
    """What an array of NumPy's has and a traced one lacks is refused as an attribute error with advice;
    `hasattr` tells."""
    missing = [n for n in dir(np.ndarray) if not n.startswith("_") and n not in METHODS and not hasattr(Tracer, n)]
    assert "getfield" in missing
    assert "view" not in missing
    for name in missing:
        error = failure(lambda x: getattr(x, name), X)  # noqa: B023
        assert isinstance(error, AttributeError)
        assert isinstance(error, UnsupportedError)
        assert f"x.{name}" in error.message
        assert "; " in error.message
        assert marked(error).startswith("getattr(x")
        assert tj.jit(lambda x: hasattr(x, name))(X) is False  # noqa: B023
    with pytest.raises(AttributeError, match="an array has no attribute 'foo'"):
        tj.jit(lambda x: x.foo)(X)


# -- branches ----------------------------------------------------------------------------------------------------------
def branching(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def negated(x: Any) -> Any:
    if not (x[0] > 0 or x[1] > 0):
        return x
    return -x


def leaving(x: Any) -> Any:
    for _ in range(10):
        x = x / 2
        if x.sum() < 1:
            break
    return x


def looping(x: Any) -> Any:
    while x.sum() < 10 and x[0] > 0:
        x = x + 1
    return x


BRANCH = (
    "a branch (`if`) needs the value of a traced array bool[], which is not known while tracing; use "
    "np.where(condition, a, b) or a mask "
    "(x[mask] = value) to choose elements, tj.lax.cond(condition, f, g, x) to run one of two functions; loops are "
    "tj.range(n), of n "
    "steps, and tj.lax.while_loop(condition, body, state)"
)


@pytest.mark.parametrize(
    ("function", "start", "advice", "line"),
    [
        (leaving, "a branch (`if`) that leaves a loop", "use tj.lax.while_loop(condition, body, state)", "x.sum() < 1"),
        (looping, "a `while`", "use tj.lax.while_loop(condition, body, state), or tj.range(n)", "x.sum() < 10"),
        (lambda x: 0 < x[0] < 2, "a chained comparison (a < x < b)", "use (a < x) & (x < b)", "0 < x[0] < 2"),
        (
            lambda x: x[0] > 0 and x[1] > 0,
            "`and`, `or` or `not`",
            "use &, | and ~ on comparisons in parentheses",
            "x[0] > 0",
        ),
        (lambda x: not x[0] > 0, "`and`, `or` or `not`", "np.logical_not", "x[0] > 0"),
        (lambda x: 3.0 in x, "`in`", "use np.any(x == value)", "3.0 in x"),
        (lambda x: x[0] in [1, 2], "`in`", "use np.any(x == value)", "x[0] in [1, 2]"),
        (lambda x: [v for v in x if v > 0], "the `if` of a comprehension", "a mask (x[mask])", "v > 0"),
        (lambda x: any(v > 0 for v in x), "any()", "use np.any(x)", "any(v > 0 for v in x)"),
        (lambda x: all(v > 0 for v in x), "all()", "use np.all(x)", "all(v > 0 for v in x)"),
        (lambda x: sorted(x), "sorted()", "sort outside", "sorted(x)"),
        (lambda x: min(x, key=lambda v: -v), "min() with these arguments", "use np.min(x)", "min(x, key=lambda v: -v)"),
        (lambda x: list(filter(None, x)), "list()", "", "list(filter(None, x))"),
    ],
)
def test_what_asks_for_a_truth_value_decides_the_advice(
    function: Any, start: str, advice: str, line: str, without_statements: None
):
    error = failure(function, X)
    assert type(error) is ConcretizationError
    if advice:
        assert error.message.startswith(f"{start} needs the value of a traced array ")
    assert advice in error.message
    assert marked(error) in (line, "") or line in marked(error)


def test_assertions(tmp_path: Path, without_statements: None):
    """In a file of its own: pytest rewrites those of this one."""
    file = tmp_path / "asserting.py"
    file.write_text("def asserting(x):\n    assert x[0] > 0, 'positive'\n    return x\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    error = failure(names["asserting"], X)
    assert str(error) == (
        "an `assert` needs the value of a traced array bool[], which is not known while tracing; return the condition "
        "and check it outside "
        "of the compiled function\n  at asserting.py:2:12 in asserting\n      assert x[0] > 0, 'positive'\n           "
        "  ^^^^^^^^"
    )


def test_a_branch_names_its_remedies_in_order(without_statements: None):
    for function in (branching, negated, lambda x: 1 if x[0] > 0 else 2):
        error = failure(function, X)
        assert error.message == BRANCH
    assert marked(failure(branching, X)) == "x.sum() > 0"
    places = [BRANCH.index(name) for name in ("np.where", "mask", "tj.lax.cond", "tj.range", "tj.lax.while_loop")]
    assert places == sorted(places)


def test_advice_without_source():
    function = eval("lambda x: x if x[0] > 0 else -x")
    error = failure(function, X)
    assert error.message.startswith("a branch (`if`, `while`, `and`, `or`) needs the value")
    assert "tj.lax.cond" in error.message


def test_arrays_of_several_elements_have_no_truth_value_in_numpy_either():
    function = lambda x: 1 if x > 0 else 2  # noqa: E731
    error = failure(function, X)
    assert isinstance(error, ShapeError)
    assert isinstance(error, ValueError)
    assert error.message.startswith(
        "the truth value of an array of shape (3,) is ambiguous, in NumPy too; use np.any(x) or np.all(x)"
    )
    with pytest.raises(ValueError, match="ambiguous"):
        function(X)


@pytest.mark.parametrize(
    ("function", "start", "advice"),
    [
        (
            lambda x, i: ["a", "b", "c"][i],
            "an index of a list or another sequence of Python's",
            "use np.stack(items)[i]",
        ),
        (lambda x, i: [x for _ in range(i)], "range()", "use tj.range(n)"),
        (lambda x, i: np.zeros(i), "a shape, count or axis in zeros()", "make it a Python number"),
    ],
)
def test_what_asks_for_an_integer_decides_the_advice(function: Any, start: str, advice: str):
    error = failure(function, X, np.int64(2))
    assert error.message.startswith(f"{start} needs the value of a traced array i64[]")
    assert advice in error.message
    assert marked(error)


# -- functions that are not there
# ---------------------------------------------------------------------------------------------------------
OUTSIDE = "call it before or after the compiled function"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.savetxt("x.txt", x), f"np.savetxt is not supported in traced code; {OUTSIDE}"),
        (lambda x: np.datetime_as_string(x), f"np.datetime_as_string is not supported in traced code; {OUTSIDE}"),
        (lambda x: scipy.special.ellipk(x), f"scipy.special.ellipk is not supported in traced code; {OUTSIDE}"),
        (
            lambda x: x.getfield(np.int64),
            f"x.getfield() is not supported in traced code; {OUTSIDE}",
        ),
        (lambda x: x.strides, "x.strides is not supported in traced code; an array here has no memory of its own"),
        (
            lambda x: x.view(np.int64),
            "x.view(int64) of an array of float64 is not supported in traced code; x.astype(int64) converts",
        ),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named_as_written(function: Any, message: str):
    error = failure(function, X)
    assert (error.message, marked(error)) == (message, marked(error))
    assert marked(error)


def test_views_of_the_same_dtype_share_elements():
    def f(x: Any) -> Any:
        y, z = x.view(), x.view(x.dtype)
        y[0] = 7
        z += 1
        return x

    np.testing.assert_array_equal(tj.jit(f)(X.copy()), f(X.copy()))


def reshaping(x: Any) -> Any:
    x.shape = (3, 1)
    return x


def retyping(x: Any) -> Any:
    x.dtype = np.int64
    return x


def deleting(x: Any) -> Any:
    del x[0]
    return x


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (reshaping, "an assignment to x.shape is not supported in traced code; use x = x.reshape(shape)"),
        (retyping, "an assignment to x.dtype is not supported in traced code; use x = x.astype(dtype)"),
        (deleting, "elements of arrays cannot be deleted, in NumPy neither; use np.delete(x, index)"),
    ],
)
def test_changes_of_what_an_array_is(function: Any, message: str):
    assert failure(function, X).message == message


# -- arrays that the trace did not make
# ---------------------------------------------------------------------------------------------------
class Makers:
    zeros = staticmethod(np.zeros)
    bare = np.zeros

    def filled(self, x: Any) -> Any:
        a = self.zeros(2)
        a[0] = x[0]
        return a


def test_static_methods_that_make_arrays():
    def f(x: Any) -> Any:
        a = Makers.zeros(3)
        a[1:] = x[1:]
        return a + Makers().filled(x)[0]

    np.testing.assert_array_equal(tj.jit(f)(X), f(X))
    assert Makers.__dict__["zeros"].__func__ is np.zeros


def test_arrays_of_unknown_origin_that_are_filled():
    def store(x: Any) -> Any:
        a = np.fromstring("1 1 1", sep=" ")
        a[0] = x[0]
        return a

    def add(x: Any) -> Any:
        a = np.fromstring("1 1 1", sep=" ")
        a += x
        return a

    for function, line in ((store, "a[0]"), (add, "a += x")):
        error = failure(function, X)
        assert "that the trace did not make" in error.message
        assert "np.zeros, np.empty or np.array" in error.message
        assert marked(error) == line


# -- recursion ---------------------------------------------------------------------------------------------------------
def test_deep_containers_are_not_taken_for_recursion_of_the_function():
    deep: Any = X
    for _ in range(5000):
        deep = [deep]

    def nest(x: Any) -> Any:
        for _ in range(5000):
            x = [x]
        return x

    for function, argument in ((lambda d: d, deep), (nest, X)):
        error = failure(function, argument)
        assert isinstance(error, UserError)
        assert "is nested deeper than Python's recursion limit" in error.message

    def forever(x: Any) -> Any:
        return forever(x + 1)

    assert failure(forever, X).message.startswith(
        "forever called itself, or others each other, until Python's recursion limit"
    )


# -- loops over tj.range
# ------------------------------------------------------------------------------------------------------------------
def triangle(x: Any, loop: Any) -> Any:
    for i in loop(len(x)):
        for j in loop(i, len(x)):
            x[j] += i * x[i]
    return x


def backwards(x: Any, loop: Any) -> Any:
    for i in loop(len(x)):
        for j in loop(len(x) - 1, i, -2):
            x[j] = 1.5 * x[j] - x[i]
            for k in loop(j - 1, j + 1):
                x[0] += k
    return x


def sorting(x: Any, loop: Any) -> Any:
    for i in loop(len(x)):
        for j in loop(len(x) - 1 - i):
            low, high = np.minimum(x[j], x[j + 1]), np.maximum(x[j], x[j + 1])
            x[j], x[j + 1] = low, high
    return x


def by_data(x: Any, loop: Any) -> Any:
    n = np.array(3)
    for _ in loop(n):  # the bound as it was
        n += 1
        x += n
    for i in loop((x > 0).sum()):
        x[i] *= 2
    for i in loop(np.abs(x[0]).astype(np.int16) % 3, 5, 2):
        x[1] += i
    return x


@pytest.mark.parametrize("program", [triangle, backwards, sorting, by_data])
def test_bounds_of_loops_may_depend_on_data(program: Any):
    compiled, mapped = tj.jit(lambda x: program(x, tj.range)), tj.jit(tj.vmap(lambda x: program(x.copy(), tj.range)))
    rng = np.random.default_rng(0)
    for n in (6, 8, 5):
        x = rng.normal(size=(3, n))
        expected = [program(row.copy(), range) for row in x]
        np.testing.assert_allclose(compiled(x[0].copy()), expected[0])
        np.testing.assert_allclose(mapped(x), expected)
    x, v = rng.normal(size=(2, 6))
    moved = (program(x + 1e-7 * v, range) - program(x - 1e-7 * v, range)) / 2e-7
    tangent = tj.jit(lambda x, v: tj.jvp(lambda x: program(x.copy(), tj.range), (x,), (v,))[1])(x, v)
    np.testing.assert_allclose(tangent, moved, rtol=1e-4, atol=1e-5)


def test_bounds_that_are_no_integers():
    def f(x: Any) -> Any:
        for i in tj.range(x[0]):
            x[i] = 0
        return x

    error = failure(f, X)
    assert type(error) is DtypeError
    assert error.message == "tj.range counts in integers, not in a traced array f64[]; use x.astype(int)"
    np.testing.assert_array_equal(tj.jit(tj.grad(lambda x: np.sum(sorting(x.copy(), tj.range))))(X), np.ones(len(X)))

    def doubled(x: Any) -> Any:
        while x.sum() < 100:
            x = x * 2
        return x.sum()

    error = failure(lambda x: tj.grad(doubled)(x), X)
    assert (
        "has no reverse-mode derivative; use tj.range, tj.lax.fori_loop or tj.lax.scan with a constant count"
        in error.message
    )


# -- what a traced array is
# ---------------------------------------------------------------------------------------------------------------
def test_the_type_of_a_traced_array_is_what_it_stands_for():
    def f(x: Any, n: Any) -> Any:
        return (
            type(x) is np.ndarray, type(x[0]) is np.float64, type(n) is int, type(x.sum()).__name__,
            type(np.zeros(())) is np.ndarray, builtins.type("A", (), {}).__name__, isinstance(np.zeros(()), np.ndarray),
        )  # fmt: skip

    assert tj.jit(f)(X, 3) == f(X, 3)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("np.ldexp(x, -1, dtype='f8')", "np.ldexp takes no where= or dtype= here"),
        ("np.conj(x, subok=False)", "np.conjugate does not take subok here"),
        ("np.clip(x, 0, 1, foo=2)", "in traced code clip() got an unexpected keyword argument 'foo'"),
        ("x.sum(foo=2)", "in traced code sum() got an unexpected keyword argument 'foo'"),
    ],
)
def test_arguments_that_a_function_does_not_take(call: str, what: str):
    error = failure(eval(f"lambda x: {call}"), np.ones(3))
    assert what in error.message
    assert error.location is not None
