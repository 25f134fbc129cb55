"""Random programs with expressions that raise while they are traced in a loop, and not where Python knows the numbers:
integers beyond 64 bits, functions of C, text made of numbers, ints that a branch joins with floats.

What they give, or raise, decides what runs next: a loop that would end, an `except`, a branch.
"""

from __future__ import annotations

import random

from tests.generators.harness import Case, Statement

__all__ = ["onlytraced"]

USES = (
    ("out[k] += 1", "k = x[i] * 2"), ("out[k] += 1", "k = k / 2"), ("s += [3, 4, 5][k]", "k = 1.5"),
    ("s += 1 << k", "k = 1.0"), ("s += len(range(k))", "k = 2.0"), ("s += pow(c, 2, 7)", "c = 3"),
    ("s += int(str(c))", "c += 1"), ("s += (2**64 - c) % 97", "c += 1"), ("s += k & 1", "k = k * 1.0"),
    ("s += ~k", "k = x[0]"), ("s += x[:k].sum()", "k = 1.0"), ("out[k : k + 2] += 1", "k = x[i]"),
    ("s += np.zeros(k + 1).sum()", "k = 1.0"), ("s += 1.0 if str(c) == '0' else 2.0", "c += 1"),
    ("s += (c + 2**63) % 5", "c = c + 1"), ("s += max(k, 2) << 1", "k = 0.5"), ("s += len(f'{c}-{k}')", "c += 7"),
    ("s += {'0': 5}.get(str(c), 1)", "c += 1"), ("s += (h := (h * 6364136223846793005 + 1) % 2**64) % 7", "c += 1"),
    ("s += float(decimal.Decimal(c) / 4)", "c += 1"), ("s += c.bit_length()", "c = c * 3 + 1"),
    ("s += (x[0], c) < (1.5, 2)", "c += 1"), ("s += (1, c) in [(1, 0), (1, 2)]", "c += 1"),
)  # fmt: skip
GUARDS = ("x[i] > 50", "x[i] > 0", "i > 100", "s > 1000", "False", "d[i] > 90", "d[i] == 2")
JUMPS = (
    "if x[i] > 1.5: break", "if x[i] < -1.5: continue", "if d[i] == 3: break", "if s > 40: break",
    "if d[i] == 2: return s * 1.0, k * 1.0, c * 1.0, out",
)  # fmt: skip
ERRORS = ("ValueError", "TypeError", "IndexError", "OverflowError", "Exception")


def onlytraced(seed: int) -> Case:
    """The program of this seed."""
    r = random.Random(seed)
    use, change = r.choice(USES)
    body = [use, f"if {r.choice(GUARDS)}: {change}"]
    if change.startswith("c") and r.random() < 0.6:
        body = [use, change]
    if r.random() < 0.3:
        body.reverse()
    jumping = r.random() < 0.4
    if jumping:
        body.insert(r.randrange(len(body) + 1), r.choice(JUMPS))
    statements = _around(r, body, jumping)
    if r.random() < 0.2:
        statements = [Statement("if x[-1] > -1:", statements)]
    if r.random() < 0.25:
        handler = Statement(f"except {r.choice(ERRORS)}:", [Statement("s = -5", fixed=True)], fixed=True)
        statements = [Statement("try:", statements, fixed=True), handler]
    first = [Statement("n, k, c, s, h = len(x), 0, 0, 0, 1", fixed=True), Statement("out = np.zeros(12)", fixed=True)]
    last = Statement("return s * 1.0, k * 1.0, c * 1.0, out", fixed=True)
    vectors = ["np.array([0.5, 2.0, -1.0])", "np.array([-0.5, -2.0])", "np.array([1.0, -2.0, 0.5, 3.0])"]
    places = ["np.array([1, 0, 2, 3])", "np.array([0, 0, 1, 1])", "np.array([2, 1, 0, 4])"]
    calls = [([r.choice(vectors), r.choice(places), str(r.randint(0, 6))], list[str]()) for _ in range(4)]
    preamble = "import numpy as np\nimport decimal\n"
    return Case(preamble, ["x", "d", "m"], [*first, *statements, last], calls, independent=True)


def _around(r: random.Random, body: list[str], jumping: bool) -> list[Statement]:
    """A loop, or something else, around statements that name an index `i`."""
    inner = [Statement(line) for line in body]
    plain = [Statement(line) for line in body if not any(word in line for word in ("break", "continue", "return"))]
    step, last = Statement("i += 1", fixed=True), Statement("i = -1", fixed=True)
    zero = Statement("i = 0", fixed=True)
    match r.randrange(12):
        case 0:
            return [Statement("for i in range(n):", inner)]
        case 1:
            return [Statement("for i in range(min(int(d[0]), n)):", inner)]
        case 2:
            return [last, Statement("while i < n - 1:", [step, *inner])]
        case 3:
            leave = Statement("if i >= n: break", fixed=True)
            return [last, Statement("while i < d[0]:", [step, leave, *inner])]
        case 4:
            return [zero, Statement("while i < n and x[i] < 9:", [*plain, step])]
        case 5:
            leave = Statement("if i >= m or i >= n: break", fixed=True)
            return [last, Statement("while True:", [step, leave, *inner])]
        case 6:
            return [Statement("for j in range(2):", [Statement("for i in range(n):", inner)])]
        case 7:
            return [Statement("for j in range(m):", [last, Statement("while i < n - 1:", [step, *inner])])]
        case 8:
            return [Statement("for i, v in enumerate(x):", inner)]
        case 9:
            return [zero, Statement("if x[0] > 0:", plain), Statement("else:", [Statement("s += 5")])]
        case 10:
            helper = Statement("def g(i):", [Statement("nonlocal k, c, s, h", fixed=True), *plain], fixed=True)
            return [helper, zero, Statement("while i < n:", [Statement("g(i)"), step])]
        case _:
            return [zero, Statement("while i < m and i < n - 1:", [step, *(plain if jumping else inner)])]
