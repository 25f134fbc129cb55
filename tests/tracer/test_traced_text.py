"""Text made of numbers that only the program knows: it is shown, and nothing follows from it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import io
import logging
import pprint
import re
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import ConcretizationError, TracejitError, TracerError


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


X = np.array([3.0, 2.0, 5.0])
N = np.array([3, 1, 2])


def by_length(x, n):
    return len(str(int(n[0])))


def joined(x, n):
    return int(f"{int(n[0])}{int(n[1])}")


def as_a_key(x, n):
    return {"3": 1.0}.get(str(n[0]), 0.0)


def held(x, n):
    return f"{n[0]}" in "123"


def equal(x, n):
    return "3" == str(int(n[0]))


def digits(x, n):
    return sum(map(int, str(int(n[0]))))


def palindromes(x, n):
    s = i = 0
    while i < n[0]:
        if str(i) == str(i)[::-1]:
            s += i
        i += 1
    return s


def digit_sums(x, n):
    s, i = 0, 1
    while i <= n[0]:
        s += sum(map(int, str(i)))
        i += 1
    return s


def formatted(x, n):
    return int("{}".format(int(n[0]))) if n[1] > 0 else 0  # noqa: UP032


def in_a_try(x, n):
    try:
        return int(str(int(n[0])))
    except ValueError:
        return -1


@pytest.mark.parametrize(
    "f", [by_length, joined, as_a_key, held, equal, digits, palindromes, digit_sums, formatted, in_a_try]
)
def test_what_depends_on_digits_is_refused(f: Callable[..., Any]):
    with pytest.raises(ConcretizationError, match="digits that only the program knows") as caught:
        tj.jit(f)(X, N)
    assert caught.value.location is not None


def of_numbers(x, m):
    s, i = 0, 1
    while i <= m:
        s += sum(map(int, str(i))) + len(f"{i}-{m}")
        i += 1
    return s, str(m)[::-1] == str(m)


def test_numbers_that_follow_from_numbers_among_the_arguments_are_known():
    compiled = tj.jit(of_numbers)
    for m in (3, 11, 0, 12, 3):
        assert compiled(X, m) == of_numbers(X, m)


def test_text_of_sizes_and_dtypes_is_known():
    def f(x):
        return len(f"{x.shape[0]} {x.dtype}"), "float64" in f"{x.dtype}s", int(f"{len(x)}{x.ndim}")

    compiled = tj.jit(f)
    for n in (3, 11):
        assert compiled(np.ones(n)) == f(np.ones(n))


def test_it_is_printed_logged_warned_of_and_raised(capsys: pytest.CaptureFixture[str], caplog: Any):
    def f(x):
        print(f"one {x[0]} of {len(x)}", "two " + str(x[1]), str(x[0]).rjust(30))
        logging.getLogger("user").warning(f"three {x[0]}")
        warnings.warn(f"four {x[0]}")  # noqa: B028
        if x[0] < 0:
            raise ValueError(f"five {x[0]}")
        return x

    compiled = tj.jit(f)
    with pytest.warns(UserWarning, match="four Tracer<"):
        compiled(X)
    printed = capsys.readouterr().out
    assert "one Tracer<f64[]" in printed
    assert "two Tracer<f64[]" in printed
    assert "three Tracer<" in caplog.text
    with pytest.raises(ValueError, match="five") as caught:
        compiled(-X)
    assert "five" in str(caught.value)
    assert len(str(caught.value)) > 5
    assert {caught.value.args[0]: 1}


def powers(x, n):
    s = i = 0
    while i < n[0]:
        s = s + pow(i, 2, 7)
        i += 1
    return s


def over_a_range(x, n):
    s = 0
    for i in range(int(n[0])):
        s = s + float(decimal.Decimal(i) / 3)
    return s


def caught(x, n):
    try:
        return pow(int(n[0]), 2, 7)
    except (ValueError, TypeError):
        return -99.0


def durations(x, n):
    s = i = 0
    while i < n[0]:
        s += datetime.timedelta(seconds=i).seconds
        i += 1
    return s


def means(x, n):
    r = 0.0
    for _ in range(int(n[0])):
        r += statistics.mean(list(x))
    return r


@pytest.mark.parametrize("f", [powers, over_a_range, caught, durations, means])
def test_functions_that_take_no_traced_number_do_not_decide(f: Callable[..., Any]):
    with pytest.raises(TracerError, match="Tracer"):
        tj.jit(f)(X, N)


def test_errors_of_the_user_s_may_speak_of_tracers():
    def f(x):
        s = 0.0
        for v in x:
            if v > 4:
                raise ValueError("Tracer of the user's")
            s += v
        return s

    compiled = tj.jit(f)
    assert compiled(X - 2) == f(X - 2)
    with pytest.raises(ValueError, match="of the user's"):
        compiled(X)


def test_arrays_of_any_size_are_shown_by_one_program(capsys: pytest.CaptureFixture[str]):
    compiled = tj.jit(lambda x: print(f"array {x}", x, [x]) or x * 2)
    for n in (3, 4, 5, 6):
        np.testing.assert_array_equal(compiled(np.ones(n)), np.full(n, 2.0))
    assert capsys.readouterr().out.count("array Tracer<f64[") <= 2


CONTAINERS = [
    lambda v, n: len(str((v, 1))),
    lambda v, n: len(repr([v])),
    lambda v, n: str({"a": v}) == "{'a': 3}",
    lambda v, n: len(f"{[v]}"),
    lambda v, n: len("%r" % [v]),
    lambda v, n: len(str(slice(v))),
    lambda v, n: len(str(ValueError(v, 1))),
    lambda v, n: len(",".join(map(str, n))),
    lambda v, n: len(str.join(",", map(str, n))),
    lambda v, n: max(map(len, map(str, n))),
    lambda v, n: len(set(map(str, n))),
    lambda v, n: "123".find(str(v)),
    lambda v, n: "1-2".replace("-", str(v)),
    lambda v, n: bool(re.match("-", f"{v}")),
    lambda v, n: ord(str(v)),
    lambda v, n: int(decimal.Decimal(str(v))),
    lambda v, n: len(pprint.pformat([v])),
    lambda v, n: list(map(int, [str(v)])),
    lambda v, n: str.__len__(str(v)),
    lambda v, n: io.StringIO().write(str(v)),
    lambda v, n: (np.array([str(v)]) == "3").all(),
    lambda v, n: {"".join([str(v), "a"]): 1},
    lambda v, n: len(f"{v}{v}"),
    lambda v, n: hash(Point(v, 1).__repr__()),
    lambda v, n: len(f"{Point(v, 1)}"),
]


@pytest.mark.parametrize("number", range(len(CONTAINERS)))
def test_no_way_leads_to_its_characters(number: int):
    f = CONTAINERS[number]
    with pytest.raises(TracejitError):
        tj.jit(lambda n: f(int(n[0]), n))(N)


def test_text_is_still_text():
    def f(x, name):
        text = f"{x[0]}"
        return (
            isinstance(text, str),
            type(text) is str,
            bool(text),
            f"{name:>4}" + "%d" % 3,  # noqa: UP031
            "-".join(["a", "b"]),
            str(name),
        )

    assert tj.jit(f)(X, "ab") == (True, True, True, "  ab3", "a-b", "ab")


def test_errors_show_numbers_that_are_formatted():
    def f(x):
        if x[0] < 0:
            raise ValueError(f"bad {x[0]:.2f} {1}" + f" {x[1]:8.3f}")
        return x

    compiled = tj.jit(f)
    compiled(X)
    with pytest.raises(ValueError, match=r"bad Tracer<.*> 1 Tracer<") as caught:
        compiled(-X)
    assert isinstance(caught.value.args[0], str)


class Box:
    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return "Box(%r)" % (self.v,)  # noqa: UP031


class Label:
    def __init__(self, v):
        self.v, self.n = v, 0

    def __str__(self):
        return str(self.v)

    def __format__(self, spec):
        return "q" + format(self.v, ".2f") if spec == "q" else f"{self.v}"


class Failure(RuntimeError):
    def __init__(self, message, *, code=1):
        self.message, self.code = message, code

    def __str__(self):
        return f"[{self.code}] {self.message}"


FORMAT, BRACES, COMMA = "value %.3e at %d", "value {:.2f}", ", "


def test_formats_that_ask_for_digits_are_shown(capsys: pytest.CaptureFixture[str]):
    def plain(x, n):
        print("%d: %8.3f %s %%" % (n[0], x[0], "a"))  # noqa: UP031
        print("%(b)5d %(a)g %(c)s" % {"a": x[0], "b": 3, "c": "d"})  # noqa: UP031
        print("%*d %.*f %-5i|" % (4, 7, 2, x[0], 5))  # noqa: UP031
        print(FORMAT % (x[0], 3), BRACES.format(x[1]), COMMA.join([str(v) for v in x[:2]]))
        return x * 2

    np.testing.assert_array_equal(tj.jit(plain)(X, N), X * 2)
    t = r"Tracer<f64\[\] by jit>"
    lines = capsys.readouterr().out.splitlines()
    for line, pattern in zip(
        lines,
        (
            r"Tracer<i64\[\] by jit>: Tracer<f64\[\] by jit> a %",
            rf"    3 {t} d",
            rf"   7 {t} 5    \|",
            rf"value {t} at 3 value {t} {t}, {t}",
        ),
        strict=True,
    ):
        assert re.fullmatch(pattern, line), line


def test_objects_with_text_of_their_own_are_shown(capsys: pytest.CaptureFixture[str]):
    def f(x):
        print(Label(x[0]), f"{Label(x[1])} {Box(x[0])!r}", [Box(x[0])])
        print("%s %r" % (Label(x[0]), Box(x[1])), "{:q} {}".format(Label(x[0]), Label(x[1])))  # noqa: UP031, UP032
        print(Label(Label(x[0])), ", ".join(str(v) for v in x), ",".join(map(str, x)))
        return x

    np.testing.assert_array_equal(tj.jit(f)(X), X)
    assert capsys.readouterr().out.count("Tracer<f64[] by jit>") == 15


def test_objects_with_text_of_their_own_in_errors():
    def carried(x):
        if x[0] > 100:
            raise ValueError("bad", Box(x[0]))
        return x

    def by_its_class(x):
        if x[0] > 100:
            raise Failure(f"v {x[0]}", code=3)
        return x

    for f, text in ((carried, r"'bad', Box\(Tracer<"), (by_its_class, r"\[3\] v Tracer<")):
        compiled = tj.jit(f)
        np.testing.assert_array_equal(compiled(X), X)
        with pytest.raises((ValueError, RuntimeError), match=text):
            compiled(X + 200)


def padded(x):
    widths = []

    def pad(v):
        t = f"{v:.2f}"
        widths.append(len(t))
        return t

    print(" ".join(pad(v) for v in x))
    return max(widths)


def counted(x):
    c = 0

    def label(v):
        nonlocal c
        if str(v)[0] == "-":
            c += 1
        return "a"

    print("".join(label(v) for v in x))
    return c


class Counting:
    def __init__(self, v):
        self.v, self.n = v, 0

    def __str__(self):
        t = str(self.v)
        self.n = len(t)
        return t


def by_printing(x):
    o = Counting(x[0])
    print(o)
    return o.n


def by_formatting(x):
    o = Counting(x[0])
    f"{o}"
    return o.n


def by_mapping(x):
    lengths = []

    def longest(v):
        lengths.append(max(map(len, map(str, [v, v]))))
        return "a"

    print("".join(longest(v) for v in x))
    return max(lengths)


@pytest.mark.parametrize("f", [padded, counted, by_printing, by_formatting, by_mapping])
def test_text_made_while_text_is_made_does_not_decide(f: Callable[..., Any]):
    with pytest.raises(TracejitError):
        tj.jit(f)(np.array([1.0, -2.0, 3.0]))


@dataclasses.dataclass
class Particle:
    at: Any
    charge: int = 3


@attrs.define
class Cell:
    of: Any


def test_objects_whose_text_is_generated(capsys: pytest.CaptureFixture[str]):
    def f(x: Any) -> Any:
        p = Particle(x[0])
        print(p, f"state: {p}", "%s" % p, [p], str(p), repr(Cell(p)))  # noqa: UP031
        if x[0] > 100:
            raise ValueError("bad", p, f"{p}")
        return x

    jitted: Any = tj.jit(f)
    assert np.array_equal(jitted(np.arange(3.0)), np.arange(3.0))
    one = "Particle(at=Tracer<f64[] by jit>, charge=3)"
    assert capsys.readouterr().out == f"{one} state: {one} {one} [{one}] {one} Cell(of={one})\n"
    with pytest.raises(ValueError, match="bad"):
        jitted(np.arange(3.0) + 200)

    def decides(x: Any) -> Any:
        return x if repr(Particle(x[0])) == "Particle(at=0.0, charge=3)" else 2 * x

    with pytest.raises(ConcretizationError):
        tj.jit(decides)(np.arange(3.0))
