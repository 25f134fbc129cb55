"""Arrays with as many elements as data say leave loops and branches of the program, and go from one iteration to the
next.
"""

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

X = np.linspace(0.05, 0.95, 10)
SIZES = (X, -X, X[:4], 3 * X, X[:1], X[:2], np.linspace(-1, 1, 33), X[:0])


def outcome(f, *args):
    try:
        return f(*args)
    except (IndexError, ValueError) as error:
        return type(error).__mro__[-3].__name__


def several(results):
    return results if isinstance(results, tuple) else (results,)


def left_by_a_branch(x):
    if x.sum() > 1:
        y = x[x > 0.5]
    else:
        y = x[x < 0.5]
    return y.sum(), y


def left_by_one_side(x):
    y = x[x > 0.5] if x.sum() > 1 else x
    return 2 * y, len(y)


def of_two_known_lengths(x):
    y = x[:3] if x.sum() > 1 else x[3:]
    return y * 2, len(y), y.sum()


def shrinks_in_a_while(x):
    while len(x) > 3:
        x = x[x > x.min()]
    return x


def left_by_a_loop(x):
    last = x
    for i in range(100):
        last = x[x > 0.01 * i]
    return last


def first_bound_in_a_loop(x):
    for i in range(40):
        found = x[x > 0.02 * i]
    return found, found.sum()


def sieve(x):
    candidates = np.arange(2, 20 + 5 * len(x))
    primes = np.zeros(60, int)
    k = 0
    while len(candidates) > 0:
        p = candidates[0]
        primes[k] = p
        k += 1
        candidates = candidates[candidates % p != 0]
    return primes[:k]


def two_of_one_length(x):
    y = 2 * x
    n = 0
    while x.size > 2:
        m = x > x.mean() + 0.001
        if not m.any():
            break
        x = x[m]
        y = y[m]
        x = x + 0 * y
        n += 1
    return x, y, n


def by_known_slices(x):
    s = 0.0
    while len(x) > 1:
        s += x[0]
        x = x[1:] if x[0] < 0.5 else x[2:]
    return s, x


def quickselect(x):
    k = len(x) // 2
    while True:
        pivot = x[len(x) // 2]
        low, same = x[x < pivot], np.sum(x == pivot)
        if k < len(low):
            x = low
        elif k < len(low) + same:
            return pivot
        else:
            k = k - len(low) - same
            x = x[x > pivot]


def survivors(x):
    place = np.arange(len(x))
    age = 0
    while len(place) > 0 and age < 50:
        place = place[x[place] > 0.04 * age]
        age += 1
    return place, age


def rows(x):
    a = x[:, None] * np.arange(1.0, 4.0)
    for i in range(30):
        if len(a) > 2:
            a = a[a[:, 0] > 0.02 * i]
    return a, a.sum(axis=0)


def left_by_return(x):
    for i in range(60):
        y = x[x > 0.03 * i]
        if len(y) < 4:
            return y, i
    return x, -1


def asked_on_one_side_and_filled_on_the_other(x):
    p = x[x > 0.3]
    if x[0] > 0.5:
        q = len(p)
    else:
        q = 0
        p[:] = 3
    return p.sum() + q, p


def asked_and_filled_in_turns(x):
    p = x[x > 0.3]
    q = 0
    for i in range(4):
        if x[i] > 0.5:
            q = q + len(p)
        else:
            p[:] = i
    return p, q


def how_many_or_a_number(x):
    n = len(x[x > 0.3])
    k = n if x[0] > 0.5 else 7
    return k + (len(x[x > 0.9]) if x[1] > 0.5 else n)


def the_mean_and_how_many(x):
    p = x[x > 0.3]
    n = len(p)
    if n == 0:
        return 0.0, 0
    return p.sum() / n, n


FUNCTIONS = [
    asked_on_one_side_and_filled_on_the_other,
    asked_and_filled_in_turns,
    how_many_or_a_number,
    the_mean_and_how_many,
   
    left_by_a_branch, left_by_one_side, of_two_known_lengths, shrinks_in_a_while, left_by_a_loop, first_bound_in_a_loop,
    sieve, two_of_one_length, by_known_slices, survivors, rows, left_by_return,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference", "opencl"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_lengths_are_handed_on(f, backend, record_backend):
    record_backend(backend)
    jitted = tj.jit(f, backend=backend)
    for x in SIZES if backend == "cpu" else SIZES[:3]:
        mine = x.copy()
        want = outcome(f, x.copy())
        got = outcome(jitted, mine)
        if isinstance(want, str):
            assert got == want
            continue
        for a, b in zip(several(got), several(want), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
            assert np.shape(a) == np.shape(b)
        np.testing.assert_array_equal(mine, x)


def test_quickselect():
    jitted = tj.jit(quickselect)
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 10, 101, 1000):
        x = rng.normal(size=n)
        assert jitted(x) == quickselect(x) == np.sort(x)[n // 2]


def test_derivatives_pass_through_them():
    def f(x):
        y = x
        for i in range(20):
            y = y[y > 0.02 * i] * 1.01
        return np.sum(y**2)

    def g(x):
        y = x[x > 0.5] * 3 if x.sum() > 1 else x * 2
        return np.sum(y**2)

    for function in (f, g):
        x = X + 0.001
        got = tj.jit(tj.grad(function))(x)
        step = 1e-6
        want = [(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))]
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_what_was_another_name_for_an_array_is_one_still():
    def f(x):
        y = x
        if x.sum() > 1:
            x = x[x > 0.5]
        y[0] = 7.0
        return x, y

    def g(x):
        while len(x) > 3:
            x = x[1:]
            y = x
        y[0] = 5.0
        return x

    for function in (f, g):
        mine, x = X.copy(), X.copy()
        want = function(x)
        try:
            got = tj.jit(function)(mine)
        except TracejitError:
            continue  # which array it is depends on data
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(mine, x)


def test_what_grows_is_refused():
    def f(x):
        y = x[:1]
        k = 0
        while k < x.sum():
            y = np.concatenate([y, x[x > 0.5]])
            k += 1
        return y

    with pytest.raises(TracejitError, match="an array grows in a loop of the program"):
        tj.jit(f)(X)


def test_vmap_names_the_reason():
    with pytest.raises(TracejitError, match=r"under vmap, the shape of .* differs"):
        tj.jit(lambda x: tj.vmap(lambda r: shrinks_in_a_while(r).sum())(x))(X.reshape(2, 5))
