"""Errors in functions whose statements are Python's own, and in generators: refusals and what a trace begins again by
are not caught there either.
"""

import contextlib
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError, TracerError


def left_before_the_else(a: Any) -> Any:
    r = 0.0
    for k in range(3):
        try:
            if k == 2:
                break
            r = r + a[k].sum()
        except Exception:
            r = -1.0
        else:
            r = r * 2
    return r


def left_by_data_before_the_else(a: Any) -> Any:
    r = 0.0
    for row in a:
        try:
            if row.sum() > 5:
                continue
            r = r + row.sum()
        except KeyError:
            r = -1.0
        else:
            r = r * 2
        finally:
            r = r + 1
    return r


def returned_before_the_else(a: Any) -> Any:
    try:
        if a[0, 0] > 0:
            return a.sum()
        b = a * 2
    except KeyError:
        return -1.0
    else:
        return b.max()


def asking_for_variables(a: Any) -> Any:
    try:
        r = np.interp(0.5, np.arange(3.0), a[0])
    except Exception:
        r = -1.0
    return r, sorted(locals())


def of_the_function_around(a: Any) -> Any:
    r = 0.0

    def f() -> None:
        if len(a):
            nonlocal r
            try:
                r = a[0][3] * 1.0
            except:  # noqa: E722
                r = -1.0

    f()
    return r


def in_a_generator(a: Any) -> Any:
    def items() -> Any:
        for row in a:
            try:
                yield np.interp(0.5, np.arange(3.0), row)
            except ValueError:
                yield -1.0

    return sum(items())


def in_a_class(a: Any) -> Any:
    class K:
        try:
            y = a[0][3]
        except IndexError:
            y = -1.0
        with contextlib.suppress(Exception):
            z = a[0][4]

    return K.y + getattr(K, "z", 10.0)


def in_a_group(a: Any) -> Any:
    try:
        r = a[0][3]
    except* IndexError as group:
        r = -1.0 * len(group.exceptions)
    return r


class Swallows(contextlib.ContextDecorator):
    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> bool:
        return True


@Swallows()
def decorated(a: Any) -> Any:
    return a[0][3] * 1.0


def by_a_decorator(a: Any) -> Any:
    r = decorated(a)
    return -1.0 if r is None else r


def within_a_stack(a: Any) -> Any:
    r = 0.0
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(IndexError))
        r = a[0][3]
    return r


def a_loop_in_the_end(a: Any) -> Any:
    try:
        a[0] += 1
    finally:
        for k in range(3):
            a[k] *= 2
    return a


def a_return_that_an_error_follows(a: Any) -> Any:
    try:
        try:
            return 1.0
        finally:
            _p, _q, _w = a[0]
    except Exception:
        pass
    return a[0, 0] * 2


def a_break_that_an_error_follows(a: Any) -> Any:
    n = 0
    for row in a:
        try:
            try:
                if n == 1:
                    break
            finally:
                _p, _q, _w = row
        except ValueError:
            n = n + 10
        n = n + 1
    return n


def a_loop_that_raises(a: Any) -> Any:
    r = 0.0
    try:
        for i in range(len(a)):
            a[i] += 1
            if i == 2:
                raise KeyError(i)
    except* KeyError as group:
        r = len(group.exceptions)
    return a, r


class Says:
    """What swallows errors in the common way."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, *error: Any) -> bool:
        return True if kind is not None and issubclass(kind, Exception) else False


def within_a_manager_that_says_so(a: Any) -> Any:
    y = -1.0
    with Says():
        y = np.interp(0.5, np.arange(3.0), a[0])
    return y


def two_groups(a: Any) -> Any:
    r = q = 0.0
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError:
        r = a[0].sum()
    except* KeyError:
        q = a[0].max()
    return r, q


def a_group_within(a: Any) -> Any:
    r = 0.0
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            r = a[0].sum()
    except ExceptionGroup as group:
        r += len(group.exceptions)
    return r


RIGHT = [
    left_before_the_else, left_by_data_before_the_else, returned_before_the_else, asking_for_variables,
    of_the_function_around, in_a_generator, in_a_class, in_a_group, by_a_decorator, within_a_stack, a_loop_in_the_end,
    a_return_that_an_error_follows, a_break_that_an_error_follows, a_loop_that_raises, within_a_manager_that_says_so,
    two_groups, a_group_within,
]  # fmt: skip


@pytest.mark.parametrize("f", RIGHT)
def test_what_is_right_at_every_size(f: Any):
    compiled = tj.jit(f)
    for columns in (4, 3, 5, 3, 2, 6, 6):
        a = np.arange(3.0 * columns).reshape(3, columns) - 4.0
        np.testing.assert_equal(compiled(a.copy()), f(a.copy()), err_msg=f"{columns} columns")


def inverse(a: Any) -> Any:
    return np.linalg.inv(a).sum()


def raised(a: Any) -> Any:
    if a[0, 0] > 1e9:
        raise ValueError("great")
    return a.sum()


def median(a: Any) -> Any:
    return np.median(a * 1j)


def in_generators(f: Any, a: Any) -> Any:
    def values() -> Any:
        try:
            yield f(a)
        except Exception:
            yield -1.0

    return sum(values())


def in_groups(f: Any, a: Any) -> Any:
    r = 0.0
    try:
        r = f(a)
    except* Exception:
        r = -2.0
    return r


def beside_variables(f: Any, a: Any) -> Any:
    try:
        r = f(a)
    except Exception:
        r = -1.0
    return r * len(locals())


def left_in_the_end(f: Any, a: Any) -> Any:
    r = -1.0
    try:
        r = f(a)
    finally:
        return r  # noqa: B012


@pytest.mark.parametrize("what", [inverse, raised, median])
@pytest.mark.parametrize("around", [in_generators, in_groups, beside_variables, left_in_the_end])
def test_refusals_are_not_caught(around: Any, what: Any):
    around(what, np.eye(2))
    with pytest.raises(TracejitError):
        tj.jit(lambda a: around(what, a))(np.eye(2))


def test_a_function_without_source():
    names: dict[str, Any] = {"np": np}
    exec(
        "def f(a):\n    try:\n        return np.linalg.inv(a).sum()\n    except Exception:\n        return -1.0", names
    )
    with pytest.raises(TracerError):
        tj.jit(names["f"])(np.eye(2))


def an_end_that_fails(x: Any, k: Any) -> Any:
    n, s = 0, 0.0
    try:
        s += sum(x[i] for i in list(range(10))[:k])
        n += 1
    finally:
        s += {1: 0.5}[n]
    return s


def an_end_that_fails_caught(x: Any, k: Any) -> Any:
    try:
        return an_end_that_fails(x, k)
    except KeyError:
        return -1.0


@pytest.mark.parametrize("f", [an_end_that_fails, an_end_that_fails_caught])
def test_an_end_that_fails_while_the_trace_begins_again(f: Any):
    compiled = tj.jit(f)
    for k in (3, 2, 4, 3):
        assert compiled(np.arange(5.0), k) == f(np.arange(5.0), k)


def test_a_bare_except_behind_others_counts():
    def f(x: Any) -> Any:
        try:
            if x[0] > 0:
                x[4] += 1
            x = x + np.ones(3)
        except ValueError:
            raise KeyError("k") from None
        except:  # noqa: E722
            pass
        return x

    f(np.ones(4))
    with pytest.raises(TracerError, match="IndexError"):
        tj.jit(f)(np.ones(4))
