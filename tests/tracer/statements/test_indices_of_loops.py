"""What is known of a loop's index: that it is not 0 where Python divides by it, how great its powers are; also where
data may leave the loop, and where bounds and step are indices of loops around.
"""

from typing import Any

import numpy as np
import pytest

import tracejit as tj


def exponential(x: Any) -> Any:
    t = s = 1.0
    for n in range(1, 200):
        t *= x / n
        s += t
        if abs(t) < 1e-15:
            break
    return s


def harmonic(x: Any) -> Any:
    a = 0.0
    for n in range(1, 500):
        a += 1.0 / n
        if a > x:
            return n
    return -1


def arctangent(x: Any) -> Any:
    s = 0.0
    for k in range(200):
        t = (-1) ** k / (2 * k + 1) * x ** (2 * k + 1)
        s += t
        if abs(t) < 1e-12:
            break
    return s


def zeta(x: Any) -> Any:
    s = 0.0
    for n in range(1, 200):
        s += 1 / n**3 + 1 / (n * n) + x / 2 ** (n % 20)
        if s > 3 + x:
            return n
    return s


def is_prime(n: Any) -> Any:
    for d in range(2, 1000):
        if d * d > n:
            return True
        if n % d == 0:
            return False
    return True


def perfect_numbers(n: Any) -> Any:
    found = 0
    for k in range(1, int(n) + 30):
        s = 0
        for d in range(1, k):
            if k % d == 0:
                s += d
        if s == k:
            found += 1
    return found


def downwards(n: Any) -> Any:
    s = 0.0
    for k in range(1, int(n) + 40):
        for d in range(k, 0, -1):
            s += 1 / d
    return s


@pytest.mark.parametrize(
    "program", [exponential, harmonic, arctangent, zeta, is_prime, perfect_numbers, downwards], ids=lambda f: f.__name__
)
def test_numbers_of_pythons_divided_by_an_index_are_loops_of_the_program(program: Any):
    compiled = tj.jit(program)
    for x in (0.5, 0.9) if program in (arctangent, zeta) else (0.5, 3, 2.5):
        np.testing.assert_allclose(compiled(x), program(x), rtol=1e-13)
    text = compiled.lower(0.5).text("jaxpr")
    assert "while[" in text or "loop[" in text


def test_a_step_that_is_an_index_does_not_write_the_loop_out():
    def sieve(x: Any) -> Any:
        total = x * 0
        for d in range(1, len(x)):
            for m in range(d, len(x), d):
                total[m] += x[m] / d
        return total

    compiled = tj.jit(sieve)
    for size in (12, 300, 2, 1, 40):
        x = np.linspace(1, 2, size)
        np.testing.assert_allclose(compiled(x), sieve(x.copy()), rtol=1e-13)
    assert len(compiled.lower(np.ones(500)).text("jaxpr").splitlines()) < 200


def test_products_and_powers_of_bounded_integers_are_bounded():
    from tracejit.ir.ranges import ANYTHING, power, product

    values = range(-3, 5)
    for a in values:
        for b in range(a, 5):
            for c in values:
                for d in range(c, 5):
                    low, high = product((a, b), (c, d))
                    found = [x * y for x in range(a, b + 1) for y in range(c, d + 1)]
                    assert (low, high) == (min(found), max(found))
                    if c < 0:
                        assert power((a, b), (c, d)) == ANYTHING
                        continue
                    least, most = power((a, b), (c, d))
                    found = [x**y for x in range(a, b + 1) for y in range(c, d + 1)]
                    assert isinstance(least, int)
                    assert isinstance(most, int)
                    assert least <= min(found)
                    assert max(found) <= most
