"""Random programs of loops, branches, copies, views, in-place writes, aliases, helpers and state from outside,
against plain Python."""

from collections import Counter

import pytest

from tests.generators.harness import Case, Statement, Tally, reduced, source, verdict
from tests.generators.programs import COPIES, EITHER, VIEWS, program

CHUNK = 10


@pytest.mark.parametrize("first", range(0, 50, CHUNK))
def test_as_python_does(first: int):
    tally = Tally()
    for seed in range(first, first + CHUNK):
        case = program(seed)
        found = verdict(case, tally)
        assert found is None, f"seed {seed}\n" + Case.alone(*reduced(case))
    assert sum(tally.refusals.values()) <= CHUNK // 3, tally.refusals
    assert tally.calls > CHUNK


def test_the_programs_do_what_people_do():
    texts = [program(seed).text().split("def f(")[1] for seed in range(300)]
    counts = Counter({
        word: sum(word in t for t in texts)
        for word in (
            "tj.range(", "tj.lax.fori_loop", "tj.lax.while_loop", "tj.lax.cond", " in range(", "def ", "+= ", ".copy()",
            "out=", "np.where", "smoothed(", ".T", "Box(", "TABLE", "RATE", "STATE", ".ravel()", "[::-1]", ".fill(",
            "np.add.at", "if ", "bump(",
        )
    })  # fmt: skip
    assert min(counts.values()) >= 5, counts
    calls = [c for seed in range(100) for c in program(seed).calls]
    assert any(arguments[1] == "x" for arguments, _ in calls)  # one array as two arguments
    assert any(changes for _, changes in calls)
    every = "\n".join(program(seed).text() for seed in range(1500))
    for form in (*COPIES, *VIEWS, *EITHER):
        assert any(form.split("{x}")[0] in every and part in every for part in form.split("{x}")), form


def test_what_differs_is_found_and_made_small():
    def lines(*texts: str) -> list[Statement]:
        return [Statement(t) for t in texts]

    preamble = "def seen(a):\n    return a + 1 if not hasattr(tj, 'jit') else a + 2\n"
    loop = Statement("for i in tj.range(3):", lines("y = x.copy()", "x[0] += y[1]", "x[1] = i"))
    result = Statement("return x, t", fixed=True)
    case = Case(
        preamble, ["x"], [*lines("z = x * 2", "t = seen(x)", "t[0] = 3"), loop, result], [(["np.arange(4)"], [])] * 2
    )
    assert verdict(case) == "call 0: result [1]: at (1,): np.int64(3), not np.int64(2) (3 of 4)"
    small, what = reduced(case)
    assert what
    assert source(small.body) == "t = seen(x)\nreturn x, t"
    assert len(small.calls) == 1
    assert "jitted = tj.jit(f)" in small.alone(what)


def test_what_changes_after_the_call_is_found():
    def case(*texts: str) -> Case:
        return Case("", ["x"], [Statement(t) for t in texts], [(["np.arange(3.0)"], [])])

    assert verdict(case("x[0] = 5 if not hasattr(tj, 'jit') else 4", "return x[1]")) == (
        "call 0: argument [0]: at (0,): np.float64(4.0), not np.float64(5.0) (1 of 3)"
    )
    assert verdict(case("return x[1] if not hasattr(tj, 'jit') else x")) == "call 0: result shape (3,), not ()"
    assert verdict(case("return x * 0 * (-1 if hasattr(tj, 'jit') else 1)")) == (
        "call 0: result at (0,): np.float64(-0.0), not np.float64(0.0) (3 of 3)"
    )
    assert verdict(case("if not hasattr(tj, 'jit'):", "    raise ValueError('no')", "return x")) == (
        "call 0: no exception where NumPy has ValueError: no"
    )
    assert verdict(case("if hasattr(tj, 'jit'):", "    raise KeyError('no')", "return x")) == "call 0: KeyError: 'no'"
