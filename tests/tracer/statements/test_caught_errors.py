"""Errors that the user's `except` catches: of indices that are known to be out of range, and not; within branches and
loops and around them.  What cannot be told is refused.  Also expressions as statements.
"""

import contextlib
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError, TracerError


def values_that_nobody_takes(x):
    l = [0.0]

    def push(v):
        l[0] += v
        return v

    def none(v):
        l[0] -= v

    x[0] > 0 and push(1.0)
    x[0] > 0 or none(2.0)
    push(3.0) if x[-1] > 1 else none(4.0)
    x[0] > 0 and x[-1] > 0 and none(5.0)
    for v in x:
        v > 1 and push(v)
    return l[0]


def ended_by_an_index(x):
    s = 0.0
    for i in range(20):
        try:
            s += x[i]
        except IndexError:
            break
    return s


def one_that_data_say(x):
    try:
        i = int(x[0])
        return x[i]
    except IndexError:
        return -1.0


def never_out(x):
    s = 0.0
    try:
        for i in range(len(x)):
            s += x[i]
    except IndexError:
        s = -1.0
    return s


def while_true(x):
    i = 0
    s = 0.0
    while True:
        try:
            v = x[i]
        except IndexError:
            break
        s += v
        i += 1
    return s


def returned_in_a_branch(x):
    try:
        if x[0] > 0:
            return x[5]
    except (IndexError, KeyError):
        return -5.0
    return 0.0


def raised_in_a_branch(x):
    def bad(v):
        raise ValueError("no")

    try:
        if x[0] > 0:
            return bad(x)
    except ValueError:
        return -5.0
    return 0.0


def bound_in_a_branch(x):
    try:
        if x[0] > 0:
            return x[5]
        s = 1.0
    except IndexError:
        s = -5.0
    return s


def within_a_loop(x):
    s = 0.0
    for v in x:
        try:
            if v > 0:
                s += x[5]
            else:
                s += 1
        except IndexError:
            s -= 7
    return s


def chosen(x):
    try:
        r = x[5] if x[0] > 0 else 0.0
    except IndexError:
        r = -1.0
    return r


def the_second_operand(x):
    try:
        if x[0] > 0 and x[5] > 0:
            return 1.0
    except IndexError:
        return 2.0
    return 3.0


def in_a_while(x):
    try:
        i = 0
        while i < x[0]:
            i += 1
            x[5]
    except IndexError:
        return 2.0
    return 3.0


REFUSED = {
    "one_that_data_say", "returned_in_a_branch", "raised_in_a_branch", "bound_in_a_branch", "within_a_loop", "chosen",
    "the_second_operand", "in_a_while",
}  # fmt: skip
PROGRAMS = [
    values_that_nobody_takes, ended_by_an_index, one_that_data_say, never_out, while_true, returned_in_a_branch,
    raised_in_a_branch, bound_in_a_branch, within_a_loop, chosen, the_second_operand, in_a_while,
]  # fmt: skip
GIVEN = [[1.0, 2.0], [-1.0, 2.0, 3.0], [*range(25)], [5.0], [0.5, 7, 1, 2, 3, 4]]


@pytest.mark.parametrize("x", GIVEN, ids=len)
@pytest.mark.parametrize("f", PROGRAMS)
def test_as_python_or_refused(f: Any, x: list[float]):
    try:
        found = tj.jit(f)(np.array(x, float))
    except TracerError as error:
        assert f.__name__ in REFUSED
        assert "is known to the program alone, and a `try` or `with` around it" in str(error)  # noqa: PT017
        return
    assert found == f(np.array(x, float))


def test_each_is_refused_somewhere_or_answered():
    answered = set()
    for f in PROGRAMS:
        for x in GIVEN:
            try:
                tj.jit(f)(np.array(x, float))
            except TracerError:
                continue
            answered.add((f.__name__, len(x)))
    assert {(f.__name__, len(x)) for f in PROGRAMS for x in GIVEN if f.__name__ not in REFUSED} <= answered
    assert all((name, 25) in answered for name in REFUSED - {"one_that_data_say", "raised_in_a_branch"})


def test_integers_that_decide_whether_something_is_raised():
    def odd(x, k):
        if k % 2:
            raise ValueError("odd")
        return x.sum()

    def of_none(x, k):
        o, s = None, 0.0
        for i in range(len(x)):
            if k % 2:
                o = (o if i == 0 else x) + 0
            if o is not None:
                s += o.sum()
        return s

    x = np.ones(12)
    for f, error in ((odd, ValueError), (of_none, TypeError)):
        jitted = tj.jit(f)
        for k in (0, 2, np.array(4)):
            assert jitted(x, k) == f(x, k)
        for k in (1, np.int64(3), np.array(5)):
            with pytest.raises(error):
                jitted(x, k)


# -- managers that swallow errors --------------------------------------------------------------------------------------
class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return isinstance(error[1], ValueError)


class Notes:
    def __init__(self):
        self.left = 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.left += 1


@contextlib.contextmanager
def swallowing():
    try:
        yield 1
    except ValueError:
        pass


@contextlib.contextmanager
def handing_on():
    try:
        yield 1
    finally:
        pass


def raised_within(x, manager):
    with manager:
        if x[-1] > 0:
            raise ValueError("positive")
    return x.sum()


def raised_below(x, manager):
    def check(v):
        if v > 2:
            raise ValueError("positive")
        return v

    s = 0.0
    for v in x:
        with manager:
            s += check(v)
    return s


X = [np.array([1.0, -1.0]), np.array([3.0, 2.0, 4.0]), np.array([1.0])]


@pytest.mark.parametrize("make", [Swallows, swallowing, lambda: contextlib.suppress(ValueError)])
@pytest.mark.parametrize("function", [raised_within, raised_below])
def test_errors_that_a_manager_would_swallow_are_refused(function, make):
    with pytest.raises(TracerError, match="or `with` around it may catch it"):
        tj.jit(lambda x: function(x, make()))(X[0])


@pytest.mark.parametrize(
    "make", [Notes, handing_on, lambda: contextlib.nullcontext(), lambda: np.errstate(all="ignore")]
)
def test_errors_leave_other_managers(make):
    f = lambda x: raised_within(x, make())  # noqa: E731
    for x in X:
        try:
            right = f(x)
        except ValueError:
            with pytest.raises(ValueError, match="positive"):
                tj.jit(f)(x)
        else:
            assert tj.jit(f)(x) == right


def test_indices_that_a_manager_suppresses():
    def known(x):
        s = 0.0
        for i in range(4):
            with contextlib.suppress(IndexError):
                s += x[i]
        return s

    def unknown(x):
        with contextlib.suppress(LookupError):
            return x[x.argmax() + 1]
        return -1.0

    def others(x):
        with contextlib.suppress(ValueError):
            return x[x.argmin()]

    for x in X:
        assert tj.jit(known)(x) == known(x)
        assert tj.jit(others)(x) == others(x)
    with pytest.raises(TracerError, match="test the index by `if`"):
        tj.jit(unknown)(X[0])


def test_iterators_that_data_end_are_refused():
    class Until:
        def __init__(self, x):
            self.x, self.i = x, 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.i >= len(self.x) or self.x[self.i] > 2:
                raise StopIteration
            self.i += 1
            return self.x[self.i - 1]

    with pytest.raises(TracerError, match="whether an iterator ends here"):
        tj.jit(lambda x: sum(Until(x)))(X[1])


# -- what only tracing raises ------------------------------------------------------------------------------------------
def of_the_size(x):
    try:
        return np.interp(0.5, np.arange(3.0), x)
    except Exception:
        return -1.0


def of_a_number(x):
    try:
        return x.item()
    except ValueError:
        return -1.0


def singular(x):
    try:
        return np.linalg.inv(x.reshape(1, -1)).sum()
    except Exception:
        return -1.0


def of_two_dtypes(x):
    try:
        y = np.int32(1) if x[0] > 0 else np.float32(2.5)
        if x[-1] > 0:
            z = np.int16(3)
        else:
            z = np.float64(0.5)
        return y * z
    except Exception:
        return -1.0


def within_a_loop(x):
    s = 0.0
    for v in x:
        try:
            s += v + np.ones(3)[len(x) - 1]
        except IndexError:
            s -= v
        finally:
            s += 1
    return s


def of_truth(x):
    try:
        return sorted(x)[0]
    except (TypeError, ValueError, RuntimeError):
        return -1.0


@pytest.mark.parametrize("function", [of_the_size, of_a_number, singular, of_two_dtypes, within_a_loop, of_truth])
def test_what_only_tracing_raises_is_not_caught(function):
    f = tj.jit(function)
    for n in (4, 7, 3, 5, 1, 3, 2):
        x = np.arange(1.0, n + 1)
        try:
            result = f(x)
        except TracejitError as error:
            assert function in (singular, of_two_dtypes, of_truth), error  # noqa: PT017
            continue
        assert result == function(x)


def test_an_element_of_an_array_of_one():
    for shape in ((1,), (1, 1), ()):
        x = np.full(shape, 2.5)
        assert tj.jit(lambda x: x.item() * 2)(x) == 5.0


def regular(A, b):
    try:
        return np.linalg.solve(A, b)
    except Exception:
        return np.zeros(len(b))


def suppressed(A, b):
    with contextlib.suppress(Exception):
        return np.linalg.solve(A, b)
    return np.zeros(len(b))


def raised_and_caught(A, b):
    try:
        if b[0] > 1e9:
            raise ValueError("large")
        r = b.sum()
    except Exception:
        r = -1.0
    return r


def a_growing_list(A, b):
    try:
        found = []
        for v in b:
            if v > -1e9:
                found.append(v)
        r = len(found) * 1.0
    except TypeError:
        r = -1.0
    return r


def sides_of_two_dtypes(A, b):
    try:
        y = b if b[0] > 0 else b.astype(int)
    except (TypeError, ValueError):
        y = b * 0
    return y


def new_keys(A, b):
    try:
        d = {"k": 0}
        if b[0] > 0:
            d["k"] += 1
            d["z"] = 1
        return d["k"]
    except:  # noqa: E722
        return -1


def until_it_works(A, b):
    for k in range(5):
        try:
            L = np.linalg.cholesky(A @ A.T + np.eye(len(b)))
            break
        except Exception:
            L = np.eye(len(b)) * 10.0**k
    return L


@pytest.mark.parametrize(
    "function",
    [
        regular, suppressed, raised_and_caught, a_growing_list, sides_of_two_dtypes, new_keys, until_it_works,
    ],
)  # fmt: skip
def test_refusals_leave_through_handlers(function):
    f, rng = tj.jit(function), np.random.default_rng(0)
    for n in (3, 4, 5, 2):
        args = rng.random((n, n)) + n * np.eye(n), rng.random(n)
        try:
            result = f(*args)
        except TracejitError:
            continue
        np.testing.assert_allclose(result, function(*args))


def test_what_numpy_refuses_too_is_caught():
    def f(x, n):
        found = []
        for what in (lambda: len(n), lambda: n[0], lambda: [v for v in n], lambda: {x: 1}, lambda: round(x)):
            try:
                what()
            except TypeError:
                found.append(1)
            else:
                found.append(0)
        return found

    for n in (3, 2.5, np.float32(2)):
        x = np.arange(3.0)
        try:
            right = f(x, n)
        except IndexError:
            continue
        assert tj.jit(f)(x, n) == right


def counted_beyond_another(x):
    s, a = 0.0, np.arange(3.0)
    try:
        for i in range(len(x)):
            s += a[i]
    except Exception:
        s -= 1
    return s


def test_counted_indices_out_of_range_that_any_exception_catches():
    f = counted_beyond_another
    compiled = tj.jit(f)
    for size in (2, 4, 3, 5, 1, 5):
        x = np.arange(1.0, size + 1)
        np.testing.assert_array_equal(compiled(x.copy()), f(x.copy()))
