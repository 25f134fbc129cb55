"""`match` against values, None and names, of numbers that only the program knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj


class Kind:
    A = 1
    B = 2


def of_a_number(c):
    match c % 4:
        case 0:
            return 1.0
        case 1 | 2:
            return 2.0
        case _:
            return 3.0


def with_names_and_guards(xs):
    s, n = 0.0, 0
    for x in xs:
        match int(x) % 5:
            case 0:
                s += 1
            case 1 if x > 3:
                s += x
            case 2 | 3 as k:
                s -= k
            case k if k > 10:
                n += 100
            case k:
                n += k
    return s, n


def of_attributes(c, x):
    match c:
        case Kind.A:
            y = x + 1
        case Kind.B:
            y = x * 2
        case _:
            y = -x
    return y


def with_jumps(ops, a):
    k = 0
    stack = a.copy()
    for op in ops:
        match op:
            case 0:
                continue
            case 1:
                stack[0] += 1
            case 2:
                stack[1] *= 2
            case 9:
                break
        k += 1
    return stack, k


def nested(c, d):
    match c:
        case 0:
            match d:
                case 0:
                    r = 1
                case _:
                    r = 2
        case _:
            match d:
                case 1:
                    r = 3
                case other:
                    r = other
    return r


@pytest.mark.parametrize("c", range(6))
def test_of_a_number(c: int):
    assert tj.jit(of_a_number)(c) == of_a_number(c)


def test_one_version_for_all_numbers():
    f = tj.jit(of_a_number)
    assert [f(c) for c in range(8)] == [of_a_number(c) for c in range(8)]
    assert len(f._state.versions) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_names_and_guards(n: int):
    xs = np.array([0.0, 1, 6, 7, 3, 4, 11, 13, 5.5])[:n]
    got, want = tj.jit(with_names_and_guards)(xs), with_names_and_guards(xs)
    assert got == want


@pytest.mark.parametrize("c", [1, 2, 3])
def test_attributes(c: int):
    assert tj.jit(of_attributes)(c, 3.0) == of_attributes(c, 3.0)


@pytest.mark.parametrize("ops", [[0, 1, 2, 1, 3, 9, 1], [9], [3, 3, 0], [1, 2, 1]])
def test_jumps(ops: list[int]):
    got, want = tj.jit(with_jumps)(np.array(ops), np.ones(2)), with_jumps(np.array(ops), np.ones(2))
    np.testing.assert_array_equal(got[0], want[0])
    assert got[1] == want[1]


@pytest.mark.parametrize("c", [0, 1])
@pytest.mark.parametrize("d", [0, 1, 7])
def test_nested(c: int, d: int):
    assert tj.jit(nested)(c, d) == nested(c, d)


def by_structure(p):
    match p:
        case (a, b):
            return a + b
        case [a, *_]:
            return a
        case {"x": v}:
            return v
        case int():
            return 5
        case _:
            return 0


@pytest.mark.parametrize("p", [(1, 2), [3.0, 4.0, 5.0], {"x": 7}, {"y": 1}])
def test_structures_are_pythons(p: Any):
    assert tj.jit(by_structure)(p) == by_structure(p)


def of_python(v, mode):
    match mode:
        case "a":
            return v + 1
        case "b" | "c":
            return v * 2
        case None:
            return v
        case True:
            return v - 1
        case _:
            raise ValueError(mode)


@pytest.mark.parametrize("mode", ["a", "b", "c", None, True])
def test_of_pythons_values(mode: Any):
    assert tj.jit(of_python, static_argnums=1)(2.0, mode) == of_python(2.0, mode)


def test_no_match():
    with pytest.raises(ValueError, match="zz"):
        tj.jit(of_python, static_argnums=1)(2.0, "zz")


def test_derivative():
    def f(x, k):
        match k:
            case 0:
                return x * x
            case _:
                return 3 * x

    assert [tj.jit(tj.grad(f))(2.0, k) for k in range(2)] == [4.0, 3.0]
