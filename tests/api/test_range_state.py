"""Loops over tj.range whose bodies keep things in Python: names, attributes, dicts, classes, caches. Python's answer,
or a refusal."""

import functools
import io
import queue
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.config import config
from tracejit.support.errors import LeakedTracerError, TracejitError, TracerError, UnsupportedError


def previous(x):
    prev = 0
    for i in tj.range(len(x)):
        x[i] += x[prev]
        prev = i
    return x


def previous_or_none(x):
    prev = None
    for i in tj.range(len(x)):
        if prev is not None:
            x[i] += x[prev]
        prev = i
    return x


def two_back(x):
    low = high = 0
    for i in tj.range(len(x)):
        x[i] += x[low]
        low, high = high, i
    return x


def by_an_inner_loop(x):
    k = 0
    for i in tj.range(len(x)):
        x[i] += x[k]
        for _ in tj.range(2):
            k = i
    return x


def class_that_counts(x):
    class Counted:
        n = 0

    for i in tj.range(len(x)):
        Counted.n += 1
        x[i] += Counted.n
    return x


def class_that_its_objects_count(x):
    class Counted:
        n = 0

        def __init__(self):
            type(self).n += 1

    for i in tj.range(len(x)):
        Counted()
        x[i] += Counted.n
    return x


def memo_of_what_changes(x):
    memo = {}
    for i in tj.range(len(x)):
        if "sum" not in memo:
            memo["sum"] = x.sum()
        x[i] += memo["sum"]
    return x


def default_that_changes(x):
    memo: dict[str, Any] = {}
    for i in tj.range(len(x)):
        x[i] += memo.setdefault("first", x[0] + 1)
    return x


def cached_function(x):
    @functools.cache
    def total(k):
        return x.sum() * k

    for i in tj.range(len(x)):
        x[i] += total(1)
    return x


def cached_function_of_limited_size(x):
    @functools.lru_cache(4)
    def total(k):
        return x.sum() * k

    for i in tj.range(len(x)):
        x[i] += total(1)
    return x


def cached_property(x):
    class Net:
        @functools.cached_property
        def total(self):
            return x.sum()

    net = Net()
    for i in tj.range(len(x)):
        x[i] += net.total
    return x


def new_attribute(x):
    o = SimpleNamespace()
    for i in tj.range(len(x)):
        x[i] += getattr(o, "last", 0)
        o.last = i
    return x


def name_without_value(x):
    for i in tj.range(len(x)):
        try:
            x[i] += prev
        except NameError:
            x[i] += 10
        prev = 1
    return x + 0 * prev  # pyright: ignore[reportPossiblyUnboundVariable]


def name_among_locals(x):
    for i in tj.range(len(x)):
        x[i] += 1 if "prev" in locals() else 2
        prev = 3
    return x + prev  # pyright: ignore[reportPossiblyUnboundVariable]


def window_made_by_numpy(x):
    w = np.asarray_chkfinite([1.0, 2.0, 3.0])
    for i in tj.range(len(x)):
        w += 1
        x[i] += w[0]
    return x


def window_of_a_lax_loop(x):
    w = np.asarray_chkfinite([0.5] * 2000)

    def body(i, c):
        w[:] += 1
        return c + x[0] + w[0]

    return tj.lax.fori_loop(0, 5, body, 0.0)


def least_recently_used(x):
    kept = {"a": 1, "b": 2}
    for i in tj.range(len(x)):
        first = next(iter(kept))
        x[i] += kept[first]
        kept[first] = kept.pop(first)
    return x


def text_stream(x):
    out = io.StringIO()
    for i in tj.range(len(x)):
        out.write("a")
        x[i] += out.tell()
    return x


def random_numbers(x):
    r = random.Random(3)
    for i in tj.range(len(x)):
        x[i] += r.random()
    return x


def queue_of_numbers(x):
    q: queue.Queue[int] = queue.Queue()
    for i in tj.range(len(x)):
        q.put(1)
        x[i] += q.qsize()
    return x


def attribute_of_an_exception(x):
    e = ValueError()
    e.k = 0
    for i in tj.range(len(x)):
        e.k += 1
        x[i] += e.k
    return x


def one_branch(x):
    log = []
    r = tj.lax.cond(x.sum() > 0, lambda: (log.append("warm"), 1.0)[1], lambda: 2.0)
    return r, len(log)


def other_variable_in_each_branch(x):
    side = 0

    def left():
        nonlocal side
        side = 1
        return x * 2

    def right():
        nonlocal side
        side = 2
        return x * 3

    return tj.lax.cond(x.sum() > 0, left, right), side


CARRIED = [
    window_made_by_numpy, window_of_a_lax_loop, least_recently_used, text_stream, random_numbers, queue_of_numbers,
    attribute_of_an_exception, one_branch, other_variable_in_each_branch, previous, previous_or_none, two_back,
    by_an_inner_loop, class_that_counts, class_that_its_objects_count, memo_of_what_changes, default_that_changes,
    cached_function, cached_function_of_limited_size, cached_property, new_attribute, name_without_value,
    name_among_locals,
]  # fmt: skip


@pytest.mark.parametrize("function", CARRIED, ids=lambda f: f.__name__)
def test_what_python_would_carry_to_the_next_iteration_is_refused(function, without_statements):
    with pytest.raises(TracejitError, match=r"tj\.range|tj\.lax"):
        tj.jit(function)(np.arange(1.0, 6.0))


HANDED_ON = [
    attribute_of_an_exception, new_attribute, previous, previous_or_none, two_back, by_an_inner_loop,
    memo_of_what_changes, default_that_changes, cached_function, cached_function_of_limited_size, cached_property,
    name_without_value,
]  # fmt: skip


@pytest.mark.parametrize("function", HANDED_ON, ids=lambda f: f.__name__)
def test_names_are_handed_on_and_the_first_iteration_stands_apart(function):
    jitted = tj.jit(function)
    for n in (5, 8, 2, 3, 1):
        np.testing.assert_array_equal(jitted(np.arange(1.0, n + 1)), function(np.arange(1.0, n + 1)))


@pytest.mark.parametrize("function", [f for f in CARRIED if f not in HANDED_ON], ids=lambda f: f.__name__)
def test_what_objects_carry_to_the_next_iteration_is_refused(function):
    with pytest.raises(TracejitError, match=r"tj\.range|tj\.lax|a loop|tracing has no value"):
        tj.jit(function)(np.arange(1.0, 6.0))


def scratch(x):
    o = SimpleNamespace()
    y = np.zeros(len(x))
    for i in tj.range(len(x)):
        o.value = x[i] * 2
        o.pair = [o.value + 1, i]
        y[i] = o.value + o.pair[0] * o.pair[1]
    return y


def memo_of_what_stays(x):
    memo = {}
    w = x * 3
    y = np.zeros(len(x))
    for i in tj.range(len(x)):
        if "w" not in memo:
            memo["w"] = np.exp(-w).sum()
        y[i] = memo["w"] * i
    return y


def cached_function_of_what_stays(x):
    @functools.cache
    def total(k):
        return x.sum() * k

    y = np.zeros(len(x))
    for i in tj.range(len(x)):
        y[i] += total(1)
    return y


def scratch_of_nested_loops(x):
    memo: dict[int, Any] = {}
    y = np.zeros(len(x))
    for i in tj.range(len(x)):
        memo[0] = x[i]
        for j in tj.range(2):
            memo[1] = memo[0] * j
            memo[2] = [memo[1], j]
            y[i] += memo[1] + memo[2][1]
    return y


def targets_that_had_values(x):
    y = np.zeros(len(x))
    i, j = 7, 8
    for i in tj.range(len(x)):
        for j in tj.range(3):
            y[i] += x[j % len(x)] * i
    for i in tj.range(len(x)):
        y[i] += 1
        j = i  # not read before it is bound
    return y


@pytest.mark.parametrize(
    "function",
    [scratch, memo_of_what_stays, cached_function_of_what_stays, scratch_of_nested_loops, targets_that_had_values],
    ids=lambda f: f.__name__,
)
def test_what_no_iteration_finds_of_the_one_before_may_be_kept_anywhere(function):
    jitted = tj.jit(function)
    for n in (5, 1, 3, 2, 5):
        np.testing.assert_allclose(jitted(np.arange(1.0, n + 1)), function(np.arange(1.0, n + 1)), rtol=1e-14)


STATEMENTS = """
a = i; b = a; a, b = b, i; t = x[i]; x[i] += t; x[i] += a; x[i] += x[a]; y[i] = x[b]; d['k'] = x[i]
d['k'] = i; x[i] += d.get('k', 0)
d.setdefault('m', x[0] + 1); x[i] += d['m']; x[i] += d.setdefault('m', x[0] + 1); y[i] += d.setdefault('w', w.sum())
o.z = x[i]
x[i] += getattr(o, 'z', 1); o.n += 1; y[i] += o.n; K.n += 1; y[i] += K.n; x[i] += total(1)
y[i] += weight(2); bump(); y[i] += count()
for j in tj.range(2): a = i; for j in tj.range(2): d['q'] = j + x[i]; y[i] += d['q']; s = [x[i], i]
y[i] += s[0] * s[1]; x[i] *= 0.5
for j in tj.range(i): y[i] += x[j]; memo[0] = w.sum() + 1; y[i] += memo[0]; l.append(i); y[i] += len(l); x[i] += b
o.s = w * 2; y[i] += o.s[0]
"""  # a statement with a loop in it takes the next one into its body half of the time

HEAD = """
import functools
from types import SimpleNamespace
import numpy as np
import tracejit as tj

def f(x, w):
    y = np.zeros(len(x))
    a = b = 0
    c = 0
    d, memo, l = {}, {}, []
    o = SimpleNamespace(n=0)
    class K:
        n = 0
    @functools.cache
    def total(k):
        return x.sum() * k
    @functools.lru_cache(3)
    def weight(k):
        return w.sum() * k
    def bump():
        nonlocal c
        c += 1
    def count():
        return c
    for i in tj.range(len(x)):
"""


def program(seed: int) -> str:
    rng = random.Random(seed)
    statements = [s.strip() for s in STATEMENTS.replace("\n", ";").split(";") if s.strip()]
    lines: list[str] = []
    for _ in range(rng.randint(2, 5)):
        statement = rng.choice(statements)
        nested = lines and lines[-1].strip().startswith("for ") and lines[-1].rstrip().endswith(":")
        if statement.startswith("for ") and not nested and rng.random() < 0.5:
            head, _, inner = statement.partition(": ")
            lines += [
                f"        {head}:",
                f"            {inner}",
                f"            {rng.choice([s for s in statements if s[:4] != 'for '])}",
            ]
        else:
            lines.append(f"        {statement}")
    return HEAD + "\n".join(lines) + "\n    return x, y\n"


@pytest.mark.parametrize("part", range(8))
def test_random_bodies(part: int):
    answered = 0
    for seed in range(100 * part, 100 * part + 100):
        text = program(seed)
        scope: dict[str, Any] = {"__name__": "program"}
        exec(compile(text, f"<program {seed}>", "exec"), scope)
        f = scope["f"]
        jitted = tj.jit(f)
        for n in (4, 1, 2):
            x, w = np.arange(1.0, n + 1), np.array([0.25, 0.5])
            mine = x.copy()
            try:
                want: Any = f(x, w)
            except (KeyError, NameError, AttributeError):
                break
            try:
                got = jitted(mine, w)
            # the latter where the body of an inner loop comes before what binds a name
            except (TracejitError, NameError, AttributeError):
                break
            answered += 1
            for g, v in zip(got, want, strict=True):
                np.testing.assert_allclose(g, v, rtol=1e-12, err_msg=text)
            np.testing.assert_allclose(mine, x, rtol=1e-12, err_msg=text)
    assert answered > 20


# -- temporaries whose name held something before the loop -------------------------------------------------------------
def temporary(a):
    t = a[0] * 2
    a[1] += t
    for _ in tj.range(3):
        t = a[1].copy()
        a[2] += t
    return a


def temporary_number(a):
    s = a.sum()
    for k in tj.range(3):
        s = a[1].mean()
        if a.shape[1] > 4:
            q = s * k
        else:
            q = s
        a[0] += q
    return a


def temporary_of_an_outer_loop(a):
    for k in tj.range(3):
        r = a[k].copy()
        a[0] += r
        for q in tj.range(2):
            r = a[q].copy()
            a[2] += r * 0.1
    return a


def temporaries_bound_again_afterwards(a):
    t = u = a[0] * 2
    for _ in tj.range(3):
        t = a[1] * 0.3
        a[1] += t
    for k in tj.range(2):
        (t, *u) = a[k] * 2, k, 3
        a[1] += t + u[0]
    t, u = a[2], a[0]
    return a * t + u


def temporary_in_a_loop_of_python(a):
    t = a[0] * 2
    for _ in tj.range(3):
        n = 0
        while n < 2:
            t = a[n]
            a[1] += t * 0.1
            n += 1
    return a


@pytest.mark.parametrize(
    "function",
    [
        temporary, temporary_number, temporary_of_an_outer_loop, temporaries_bound_again_afterwards,
        temporary_in_a_loop_of_python,
    ],
)  # fmt: skip
def test_a_temporary_may_have_the_name_of_what_was_before_the_loop(function: Any):
    jitted = tj.jit(function)
    for shape in ((3, 5), (4, 4), (6, 2), (3, 5)):
        a = np.random.default_rng(shape[0]).normal(size=shape)
        np.testing.assert_allclose(jitted(a.copy()), function(a.copy()), rtol=1e-12)


def read_after_a_branch(a, flag=False):
    t = a[0] * 2
    for _ in tj.range(3):
        if flag:
            t = a[1].copy()
        a[2] += t
        t = a[1] * 3
    return a


def read_by_a_closure(a):
    t = a[0] * 2
    read = lambda: t  # noqa: E731
    for _ in tj.range(3):
        a[1] += read()
        t = a[1] * 3
    return a


def read_after_a_loop_that_may_be_empty(a):
    t = a[0] * 2
    for _ in tj.range(3):
        for j in range(len(a) - 3):
            t = a[j] * 2
        a[2] += t
    return a


def read_through_locals(a):
    t = a[0] * 2
    for _ in tj.range(3):
        a[2] += locals()["t"]
        t = a[1] * 3
    return a


def read_where_it_may_have_failed(a):
    t = a[0] * 2
    for _ in tj.range(3):
        try:
            a[2] += t
        finally:
            t = a[1] * 3
    return a


@pytest.mark.parametrize(
    "function",
    [
        read_after_a_branch, read_by_a_closure, read_after_a_loop_that_may_be_empty, read_through_locals,
        read_where_it_may_have_failed,
    ],
)  # fmt: skip
def test_a_name_that_is_read_before_it_is_bound_anew_is_refused(function: Any, without_statements: None):
    with pytest.raises(TracerError, match="binds 't' anew"):
        tj.jit(function)(np.ones((4, 3)))


@pytest.mark.parametrize(
    "function",
    [read_after_a_branch, read_by_a_closure, read_after_a_loop_that_may_be_empty, read_where_it_may_have_failed],
)
def test_a_name_that_is_read_before_it_is_bound_anew_is_handed_on(function: Any):
    for n in (4, 3, 6):
        a = np.random.default_rng(n).normal(size=(n, 3))
        np.testing.assert_allclose(tj.jit(function)(a.copy()), function(a.copy()), rtol=1e-14)


def test_a_name_of_a_loop_is_read_after_it():
    def function(a: Any) -> Any:
        t = a[0] * 2
        for _ in tj.range(3):
            t = a[1] * 3
            a[1] += t
        return a + t

    a = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(tj.jit(function)(a.copy()), function(a.copy()))


def test_a_temporary_is_not_read_after_its_loop(without_statements: None):
    def function(a):
        t = a[0] * 2
        for _ in tj.range(3):
            t = a[1] * 3
            a[1] += t
        return a + t

    with pytest.raises(LeakedTracerError, match="used after the loop"):
        tj.jit(function)(np.ones((3, 3)))


class _Sign:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize("zero", [0.0, -0.0, np.float64(0.0), [0.0], (0.0,), {"a": 0.0}])
def test_a_zero_that_changes_its_sign_is_a_change(zero: Any):
    """0.0 == -0.0, and yet copysign and division tell them apart."""

    def turned(x: Any) -> Any:
        match x:
            case list():
                return [-x[0]]
            case tuple():
                return (-x[0],)
            case dict():
                return {"a": -x["a"]}
            case _:
                return -x

    def f(x: Any) -> Any:
        s = _Sign(zero)
        for i in tj.range(4):
            held = s.value
            x[i] = np.copysign(
                1.0, held["a"] if isinstance(held, dict) else held[0] if isinstance(held, (list, tuple)) else held
            )
            s.value = turned(held)
        return x

    if isinstance(zero, (list, dict)):  # which are new ones in each iteration
        with pytest.raises(TracejitError):
            tj.jit(f)(np.zeros(4))
    else:
        np.testing.assert_array_equal(tj.jit(f)(np.zeros(4)), f(np.zeros(4)))


def test_a_function_that_an_earlier_loop_made_holds_nothing():
    def twice(x, a):
        for colour in range(2):
            for i in tj.range(3):

                def change():
                    a[i] += colour + 1  # noqa: B023

                tj.lax.cond(x[i] > 0, change, lambda: None)
        return a

    def plain(x, a):
        for colour in range(2):
            for i in range(3):
                if x[i] > 0:
                    a[i] += colour + 1
        return a

    for x in (np.array([1.0, -1.0, 2.0]), -np.ones(3)):
        np.testing.assert_array_equal(tj.jit(twice)(x, np.zeros(3)), plain(x, np.zeros(3)))


def test_what_a_function_made_in_a_loop_reads(monkeypatch: pytest.MonkeyPatch):
    def carried(x):  # the second loop reads what the first iteration of it has bound
        last = 0.0
        for i in tj.range(3):

            def read():
                return last  # noqa: B023

            x[i] += read()
            last = x[i]
        return x

    def after_another(x):
        for i in tj.range(3):
            last = x[i] * 1

            def read():
                return last  # noqa: B023

            x[i] += read()
        for i in tj.range(3):
            x[i] += read()
            last = x[i]
        return x

    def by_python(x):  # as the one before, with Python's own range
        for i in range(6):
            last = x[i] * 1

            def read():
                return last  # noqa: B023

            x[i] += read()
        for i in range(6):
            x[i] += read()
            last = x[i]
        return x

    np.testing.assert_array_equal(tj.jit(carried)(np.arange(1.0, 4)), carried(np.arange(1.0, 4)))
    np.testing.assert_array_equal(tj.jit(by_python)(np.arange(1.0, 7)), by_python(np.arange(1.0, 7)))
    with pytest.raises(TracejitError, match="'read' becomes a function"):
        tj.jit(after_another)(np.arange(3.0))
    monkeypatch.setattr(config, "statements", False)
    for f in (carried, after_another):
        with pytest.raises(TracejitError):
            tj.jit(f)(np.arange(3.0))


def test_a_range_answers_what_pythons_does():
    def f(x, r):
        a = r(2, 9, 3)
        same = [a == r(2, 10, 3), a == r(2, 9), hash(a) == hash(r(2, 10, 3)), a == 3, 5 in a, 6 in a, "a" in a]
        return x * np.array([*map(int, same), a.start, a.stop, a.step, len(a), a[1], a[-1], a[::2][1]])

    for n in (14, 14):
        np.testing.assert_array_equal(tj.jit(lambda x: f(x, tj.range))(np.ones(n)), f(np.ones(n), range))
    with pytest.raises(TracejitError):
        tj.jit(lambda x, n: x * (2 in tj.range(n[0])))(np.ones(3), np.array([3]))


def test_a_range_finds_and_counts_as_pythons_does():
    def f(x: Any) -> Any:
        numbers = tj.range(1, 7, 2)
        return x + numbers.index(5) + 10 * numbers.count(3) + 100 * numbers.count(4)

    np.testing.assert_array_equal(tj.jit(f)(np.zeros(2)), [12.0, 12.0])


@pytest.mark.parametrize("numbers", [lambda: range(-(2**63), 2**63 + 5), lambda: reversed(range(-(2**62), 2**62 + 5))])
def test_ranges_of_more_numbers_than_64_bits_count_are_refused(numbers):
    def f(a):
        n = 0
        for _ in numbers():
            n += 1
            if n > a[0]:
                break
        return n

    with pytest.raises((UnsupportedError, TracerError), match=r"more numbers than 64 bits|more than 64 iterations"):
        tj.jit(f)(np.ones(2))
