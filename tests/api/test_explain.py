"""`explain()`, the log and the warnings: why a function was compiled."""

import logging
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import tracejit as tj

SCALE = 3.0


def paragraphs(f: Any) -> list[list[str]]:
    """The lines of each version."""
    out: list[list[str]] = []
    for line in f.explain().splitlines():
        if line.startswith("version "):
            out.append([line.partition(": ")[2]])
        else:
            out[-1].append(line.strip())
    return out


def test_each_version_says_why_it_was_compiled():
    @tj.jit
    def f(x: Any, k: Any = 1) -> Any:
        return x * k * SCALE

    for args in (
        (np.ones(3),), (np.ones(4),), (np.ones(5),), (np.ones(5, np.float32),), (np.ones((2, 3)),), (np.ones(8)[::2],),
        (np.float64(2),), (tj.numpy.ones(7),), (np.ones(3), 2), (np.ones(3), 2.0),
    ):  # fmt: skip
        f(*args)
    reasons = [lines[1] for lines in paragraphs(f)]
    assert reasons == [
        "compiled for the first call",
        "compiled because argument 1 is f64[4], not f64[3]; serves other sizes too",
        "compiled because argument 1 is f32[5], not f64[n0]",
        "compiled because argument 1 is f64[2,3], not f64[n0]",
        "compiled because argument 1 is f64[4] strided, not f64[n0]",
        "compiled because argument 1 is a scalar f64[], not f64[4] strided",
        "compiled because argument 1 is a tj.Array of f64[7], not f64[4] strided",
        "compiled because the arguments have another structure",
        "compiled because argument 2 is of type float, not of type int",
    ]
    assert f.explain().startswith(
        "version 0: f64[3]\n  compiled for the first call\n  1 kernel for 2 equations on cpu\n"
    )
    f.clear_cache()
    f(np.ones(3))
    assert paragraphs(f)[0][1] == "compiled for the first call after clear_cache()"


def test_what_changed_outside_is_a_reason(monkeypatch: pytest.MonkeyPatch):
    f = tj.jit(lambda x: x * SCALE)
    f(np.ones(3))
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 4.0)
    assert f(np.ones(3))[0] == 4
    assert paragraphs(f)[0][1] == "compiled because the global 'SCALE' has changed"


def test_aliases_are_a_reason():
    @tj.jit
    def f(x: Any, y: Any) -> None:
        x += 1
        y *= 2

    f(np.ones(3), np.ones(3))
    x = np.ones(3)
    f(x, x)
    assert x[0] == 4
    assert [lines[1] for lines in paragraphs(f)][
        1
    ] == "compiled because an array that the function changes is given twice"


def test_values_that_were_asked_for_have_their_line():
    @tj.jit
    def f(x: Any, n: int, *, k: int = 1) -> Any:
        return x.reshape(n, -1) * k

    line = f.__wrapped__.__code__.co_firstlineno + 2
    f(np.ones(6), 2)
    f(np.ones(6), 3, k=2)
    f(x=np.ones(6), n=2)
    f([np.ones(4)][0], n=2)
    text = f.explain()
    assert "?" not in text
    assert paragraphs(f)[0][3:] == [f"specialised on the value of argument 2, which test_explain.py:{line} asks for"]
    assert paragraphs(f)[1][1] == "compiled because the arguments have another structure"

    g = tj.jit(lambda t, n: sum(t) if n > 1 else t[0])  # leaf 2 of one call is argument 1 of another
    g((1.0, 2.0), 3)
    g((1.0,), 1)
    g((1.0, 2.0, 4.0), 2)
    g((1.0, 2.0, 4.0, 5.0), 0)
    assert "?" not in g.explain()


def test_what_was_unrolled(without_statements: None):
    def smooth(x: Any) -> Any:
        y = np.roll(x, 1)
        return 0.5 * (x + y)

    @tj.jit
    def f(x: Any) -> Any:
        for i in range(10):
            x = np.tanh(x * 1.5 + i)
        for _ in range(3):
            x = smooth(x)
        x = x.astype(np.float32) + x
        return x - 1

    f(np.ones(5))
    first, helper = f.__wrapped__.__code__.co_firstlineno, smooth.__code__.co_firstlineno
    unrolled = [line for line in paragraphs(f)[0] if line.startswith("unrolled")]
    assert len(unrolled) == 2
    assert unrolled[0].startswith(f"unrolled: the loop at test_explain.py:{first + 2}, 10 times (30 of ")
    assert unrolled[1].startswith(f"unrolled: smooth at test_explain.py:{helper}, 3 times (")

    g = tj.jit(lambda x: x / 2 + np.int32(1))
    g(np.arange(3))
    assert "unrolled" not in g.explain()


def test_what_is_a_loop_of_the_program_is_not_unrolled():
    @tj.jit
    def f(x: Any) -> Any:
        for i in range(100):
            x = np.tanh(x * 1.5 + i)
        return x

    f(np.ones(5))
    assert "unrolled" not in f.explain()
    assert "left to Python" not in f.explain()


def test_every_compilation_is_logged(caplog: pytest.LogCaptureFixture):
    @tj.jit
    def f(x: Any) -> Any:
        return x + 1

    with caplog.at_level(logging.WARNING, "tracejit"):
        f(np.ones(3, np.float32))
    assert not caplog.records
    with caplog.at_level(logging.INFO, "tracejit"):
        for n in (3, 3, 4, 5, 6):
            f(np.ones(n))
    assert [r.name for r in caplog.records] == ["tracejit"] * 2
    assert {r.levelno for r in caplog.records} == {logging.INFO}
    texts = [r.getMessage() for r in caplog.records]
    name = f"{test_every_compilation_is_logged.__name__}.<locals>.f"
    assert texts[0].startswith(f"{name}(f64[3]) on cpu: ")
    assert texts[0].endswith(" ms, because argument 1 is f64[3], not f32[3]")
    assert texts[1].startswith(f"{name}(f64[n0]) on cpu: ")
    assert texts[1].endswith("because argument 1 is f64[4], not f64[3]; serves other sizes too")


def test_logging_is_not_imported_for_a_function():
    code = (
        "import sys, numpy as np\n"
        "before = 'logging' in sys.modules\n"
        "import tracejit as tj\n"
        "assert tj.jit(lambda x: x + 1)(np.ones(3))[0] == 2\n"
        "print(before, 'logging' in sys.modules, 'tracejit.api.explain' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found[0] == found[1]
    assert found[2] == "False"


def test_many_dtypes_warn_once():
    @tj.jit
    def f(x: Any, y: Any) -> Any:
        return x + y

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for dtype in (np.float64, np.float32, np.float32, np.int64):
            f(np.ones(3, dtype), 1.0)
        for n in (4, 5, 6):
            f(np.ones(n), 1.0)
        assert not seen
        f(np.ones(3, np.int32), 1)
        for dtype in (np.int8, np.int16, np.uint8, np.uint16, np.uint32):
            f(np.ones(3, dtype), 1.0)
    assert [str(w.message) for w in seen] == [
        "f was compiled for 4 combinations of dtypes of arguments of the same ranks: argument 1 was float64, float32, "
        "int64, int32; "
        "argument 2 was float, int; convert them to one dtype (x.astype(dtype)) unless all are meant"
    ]
    assert seen[0].filename == __file__
