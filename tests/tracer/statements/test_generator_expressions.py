"""`any`, `all` and `sum` of generator expressions are loops of the program where a `for` would be one."""

import builtins

import numpy as np
import pytest

import tracejit as tj
from tests.generators.harness import loaded


def some_above(x, c):
    return any(v > c for v in x)


def all_above(x, c):
    return all(x[i] > c for i in range(len(x)))


def total(x, c):
    return sum(v * v for v in x if v > c)


def total_from(x, c):
    return sum((x[i] * c for i in range(1, len(x))), 10.0)


def pairs(x, c):
    return sum(a * b for a, b in zip(x[1:], x, strict=False))


def numbered(x, c):
    return sum(i * v for i, v in enumerate(x))


def in_each_other(x, c):
    return any(all(x[i] >= x[j] + c for j in range(len(x))) for i in range(len(x)))


def of_two_loops(x, c):
    return sum(x[i] - x[j] for i in range(len(x)) for j in range(i) if x[i] > x[j])


def in_a_test(x, c):
    n = 0
    if any(v < c for v in x) and not all(v < c for v in x):
        n = 1
    while sum(v for v in x) > 3 * c and n < 9:
        x = x * 0.7
        n += 1
    return n, x


def name_of_its_own(x, c):
    return sum(x for x in x) + sum(x)


def total_is_taken(x, total):
    return sum(v + total for v in x)


def of_python(x, c):
    weights = [1.0, 2.0, 0.5]
    return sum(w * f(x) for w, f in zip(weights, (np.sin, np.cos, np.sqrt), strict=True)), any(w > 1.5 for w in weights)


FUNCTIONS = [
    some_above, all_above, total, total_from, pairs, numbered, in_each_other, of_two_loops, in_a_test, name_of_its_own,
    total_is_taken, of_python,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_reductions_of_generators(f):
    jitted = tj.jit(f)
    rng = np.random.default_rng(0)
    for n in (20, 7, 3, 1, 0, 33):
        for c in (0.1, 0.6, 2.0):
            x = rng.random(n) + 0.1
            got, want = jitted(x.copy(), c), f(x.copy(), c)
            assert type(got) is type(want) or np.shape(got) == ()
            for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)


def test_they_are_loops_of_the_program():
    f = tj.jit(total)
    x = np.linspace(0, 1, 5000)
    assert f(x, 0.5) == pytest.approx(total(x, 0.5))
    assert len(f.lower(x, 0.5).text("jaxpr").splitlines()) < 60


def test_other_functions_of_these_names():
    def f(x, any, sum):
        return any(v > 0 for v in x), sum(v for v in x[:3])

    assert tj.jit(lambda x: f(x, lambda g: len(list(g)), lambda g: builtins.sum(g) * 2)[1])(np.ones(9)) == 6


def test_what_nobody_asks_for_is_not_evaluated():
    def f(x):
        return any(x[i] > 5 for i in range(10))  # stops before the end of x where it can

    jitted = tj.jit(f)
    assert jitted(np.array([1.0, 7.0, 2.0]))
    with pytest.raises(IndexError):
        f(np.array([1.0, 2.0, 3.0]))
    with pytest.raises(IndexError):
        jitted(np.array([1.0, 2.0, 3.0]))


def test_derivatives():
    x = np.array([0.5, 2.0, 1.0, 3.0, 0.1, 4.0])
    got = tj.jit(tj.grad(lambda x: total_of_squares(x)))(x)
    np.testing.assert_allclose(got, 2 * x)


def total_of_squares(x):
    return sum(v * v for v in x)


EXTREMES = [
    "max(range(len(x)), key=lambda i: x[i]), min(range(len(x)), key=lambda i: (x[i] - 1) ** 2)",
    "max(x, key=abs), min(x, key=lambda v: (v - 2) ** 2), max(x, default=3.0)",
    "max(v for v in x if v > 0.5)",
    "min((v * v for v in x if v > 100), default=np.float64(-1))",
    "min((i for i in range(len(x)) if x[i] > 0), key=lambda i: x[i], default=-1)",
    "(*max(enumerate(x), key=lambda t: t[1]), *min(zip(x, x[::-1]), key=lambda t: t[0] - t[1]))",
    "max(x, key=lambda v: v > 1), min(x, key=None)",
    "max([Weighted(1.0), Weighted(3.0), Weighted(2.0)], key=lambda p: p.weight).weight + x.sum()",
    "len(max('hello', 'abc', key=len)), max({'a': 3, 'b': 1}, key={'a': 3, 'b': 1}.get) == 'a', x",
    "max((x[i] - x[j] for i in range(len(x)) for j in range(i) if x[j] > 0), default=np.float64(0))",
    "(max((y := x * 2), key=abs), y)",
]
WEIGHTED = """
class Weighted:
    def __init__(self, weight):
        self.weight = weight
"""


@pytest.mark.parametrize("text", EXTREMES)
def test_extremes_by_a_key_with_conditions_and_defaults(text):
    f = loaded(f"{WEIGHTED}\ndef f(x):\n    return {text}")["f"]
    jitted = tj.jit(f)
    for n in (0, 1, 3, 20):
        for x in (np.arange(float(n)) - 1, np.arange(float(n))[::-1] + 0.5, np.zeros(n), np.full(n, np.nan)):
            try:
                want = f(x)
            except ValueError:
                with pytest.raises(ValueError, match=r"empty|no identity"):
                    jitted(x)
                continue
            for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (jitted(x), want)), strict=True):
                np.testing.assert_array_equal(a, b)


def test_extremes_are_loops_of_the_program():
    def greatest(x):
        return max(range(len(x)), key=lambda i: x[i])

    f = tj.jit(greatest)
    x = np.cos(np.arange(5000.0) * 1.7)
    assert f(x) == np.argmax(x)
    assert len(f.lower(x).text("jaxpr").splitlines()) < 60


def test_derivatives_of_extremes():
    x = np.array([0.5, -2.0, 1.0, 1.5])

    def f(x):
        return max((v * v for v in x if v > 0), default=0.0) + 2 * min(x, key=lambda v: v)

    got = tj.jit(tj.grad(f))(x)
    np.testing.assert_allclose(got, [0, 2, 0, 3])
