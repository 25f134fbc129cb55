"""`tj.tune`: what it finds is kept, and used by later compilations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.autotune.database import Database, Entry
from tracejit.autotune.measure import Contender
from tracejit.ir.kernel import For, Kernel, walk
from tracejit.ir.schedule import Schedule, Tile, Vector, name_loops
from tracejit.support.errors import UnsupportedError, UserError


def work(x: Any) -> Any:
    return np.sin(np.exp(x)) * 2 + x


X = np.linspace(-1, 1, 60_000).reshape(300, 200).astype("f4")


def poor(kernel: Kernel) -> Schedule:
    """Two lanes, one thread."""
    return Schedule((Vector(list(name_loops(kernel.body).values())[-1], 2, 1),))


def schedule_of(f: Any, *args: Any) -> str:
    return f.lower(*args).text("schedule").split(": ", 1)[1]


def test_a_better_schedule_is_kept_and_used_by_later_compilations(database: Path, clock: Any):
    f = tj.jit(work)
    before, code = f(X), f.lower(X).text("asm")
    report = tj.tune(f, seconds=6, default=poor)(X)
    (outcome,) = report.outcomes
    assert report.improved == 1
    assert outcome.chosen_seconds < 0.8 * outcome.default_seconds
    if outcome.chosen != Schedule():
        assert "times as fast" in str(report)
    kept = {e.schedule for e in Database(database).entries()}
    # The heuristic's own schedule needs no entry.
    assert schedule_of(tj.jit(work), X) == str(outcome.chosen)
    assert kept == ({outcome.chosen} if str(outcome.chosen) != heuristic_text(X) else set())
    np.testing.assert_array_equal(f(X), before)
    assert (f.lower(X).text("asm") != code) == bool(kept)


A, B = (
    np.random.default_rng(n).integers(-4, 5, shape).astype("f4") for n, shape in enumerate([(120, 150), (150, 200)])
)


def poor_tile(kernel: Kernel) -> Schedule:
    """One accumulator."""
    return Schedule((Tile(1, 4, 4, 150, 120, 200),) if kernel.product else ())


def test_a_better_tile_of_a_product_is_kept_and_used_by_later_compilations(database: Path, clock: Any):
    f = tj.jit(lambda a, b: np.maximum(a @ b, 1))
    report = tj.tune(f, seconds=6, default=poor_tile)(A, B)
    (outcome,) = report.outcomes
    assert not outcome.rejected
    assert outcome.chosen_seconds < 0.7 * outcome.default_seconds
    (tile,) = outcome.chosen.directives
    assert isinstance(tile, Tile)
    Database(database).update([Entry(report.keys[0], outcome.chosen, 1.0, 2.0)])  # also if it is the heuristic's own
    f.clear_cache()
    np.testing.assert_array_equal(f(A, B), np.maximum(A @ B, 1))
    assert schedule_of(f, A, B) == str(tile)
    assert f"  {tile}" in str(report)
    assert f"| {tile} |" in database.read_text()


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda a, b: a @ b, (A, B)),
        (lambda a, b: a @ b + 1, (A.reshape(4, 30, 150), B)),  # rows are two axes, which plain loops see as one
        (lambda a, b: np.exp(a.T @ b).sum(axis=0), (A, A)),
        (np.matmul, (np.stack([A, A]), np.stack([B, B]))),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_default_of_a_product_is_measured_as_the_tile_that_it_is(
    function: Any, args: Any, dynamic: bool, database: Path, monkeypatch: Any
):
    measured: list[tuple[Schedule, Kernel]] = []
    made = Contender.of.__func__  # type: ignore[attr-defined]

    def of(cls: Any, backend: Any, workload: Any, schedule: Schedule) -> Any:
        found = made(cls, backend, workload, schedule)
        measured.append((schedule, found.kernel))
        return found

    monkeypatch.setattr(Contender, "of", classmethod(of))
    report = tj.tune(function, seconds=0.3, dynamic_shapes=dynamic)(*args)
    (outcome,) = [o for o in report.outcomes if o.default.directives and isinstance(o.default.directives[0], Tile)]
    assert not outcome.rejected
    kernels = [kernel for schedule, kernel in measured if schedule == outcome.default]
    assert kernels
    # rows in registers
    assert all(any(isinstance(s, For) and s.axis.kind == "unroll" for s in walk(k.body)) for k in kernels)


def heuristic_text(x: np.ndarray) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACEJIT_TUNE_DB", "")
        return schedule_of(tj.jit(work), x)


def test_an_entry_changes_what_a_jitted_function_runs(database: Path):
    """The way from the file to machine code, whatever a search would find on this machine."""
    f = tj.jit(work)
    expected, before = f(X), f.lower(X).text("asm")
    report = tj.tune(f, seconds=0.5)(X)
    (key,) = report.keys
    Database(database).update([Entry(key, Schedule((Vector("L0", 2, 3),)), 1.0, 2.0)])
    f.clear_cache()
    np.testing.assert_array_equal(f(X), expected)
    assert schedule_of(f, X) == "vector L0 2 3"
    assert f.lower(X).text("asm") != before
    assert schedule_of(f, X[:100]) != "vector L0 2 3"  # other extents are another kernel


def test_an_earlier_winner_that_no_longer_wins_is_forgotten(
    database: Path, monkeypatch: pytest.MonkeyPatch, clock: Any
):
    from tracejit.autotune import search as search_module

    f = tj.jit(work)
    (key,) = tj.tune(f, seconds=0.3)(X).keys
    Database(database).update([Entry(key, Schedule((Vector("L0", 2, 1),)), 1.0, 2.0)])
    monkeypatch.setattr(search_module, "candidates", lambda kernel, target, default: [default])
    report = tj.tune(f, seconds=2)(X)
    assert report.improved == 0
    assert report.outcomes[0].considered == 2  # the earlier winner was tried
    assert len(Database(database)) == 0


def test_nothing_is_kept_where_no_database_is_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACEJIT_TUNE_DB", "")
    report = tj.tune(work, seconds=0.3)(X)
    assert report.database is None
    assert "not kept" in str(report)


def test_arguments_are_left_alone(database: Path):
    def change(x: Any) -> Any:
        x += 1
        return x * 2

    x = np.zeros(100)
    report = tj.tune(tj.jit(change), seconds=0.5)(x)
    assert report.outcomes
    np.testing.assert_array_equal(x, 0)


def test_every_kernel_of_a_program_with_loops_is_tuned_once(database: Path):
    def iterate(x: Any) -> Any:
        x = x * 1.0
        for _ in tj.range(50):
            x[...] = np.cos(x) + np.sum(x, axis=0, keepdims=True) * 1e-3
        return x / np.max(x)

    f = tj.jit(iterate)
    x = np.linspace(0, 1, 2000).reshape(100, 20)
    expected = f(x)
    report = tj.tune(f, seconds=3)(x)
    assert len(report.outcomes) == len(set(report.keys)) >= 2
    np.testing.assert_allclose(f(x), expected, rtol=1e-12)


@pytest.mark.parametrize("dynamic", [False, True])
def test_kernels_around_a_library_call_are_tuned_on_its_results(database: Path, dynamic: bool):
    f = tj.jit(lambda a, b: np.sqrt(np.abs(a) @ np.abs(b)), alternatives=("blas",), dynamic_shapes=dynamic)
    report = tj.tune(f, seconds=0.3)(A, B)
    assert report.outcomes
    assert not any(o.rejected for o in report.outcomes)
    np.testing.assert_allclose(f(A, B), np.sqrt(np.abs(A) @ np.abs(B)), rtol=1e-6)


def test_symbolic_code_is_tuned_when_asked(database: Path):
    f = tj.jit(work, dynamic_shapes=True)
    (symbolic,) = tj.tune(f, seconds=0.5)(X).keys
    (fixed,) = tj.tune(f, seconds=0.5, dynamic_shapes=False)(X).keys
    assert symbolic != fixed
    assert tj.tune(f, seconds=0.5)(X[:7]).keys == [symbolic]


@pytest.mark.parametrize("backend", ["opencl", "vulkan"])
def test_functions_are_tuned_on_a_grid(database: Path, opencl_cache: None, record_backend: Any, backend: str):
    record_backend(backend)
    f = tj.jit(work, backend=backend)
    expected = f(X)
    report = tj.tune(f, seconds=4)(X)
    assert report.outcomes[0].distinct > 1
    np.testing.assert_array_equal(f(X), expected)


def test_what_cannot_be_tuned_is_refused(database: Path):
    with pytest.raises(UnsupportedError, match="have no schedules"):
        tj.tune(work, backend="reference")(X)
    with pytest.raises(UserError, match="wants a function, not int"):
        tj.tune(3)  # type: ignore[arg-type]


def test_the_report_reads_well(database: Path):
    text = str(tj.tune(work, seconds=1)(X))
    first, second, default, chosen, *_, last = text.splitlines()
    assert first.startswith("tuned 1 kernels in ")
    assert "schedules" in second
    assert "different programs" in second
    assert default.startswith("  default ")
    assert chosen.startswith(("  chosen ", "  the default stays"))
    assert last == f"kept in {database}"
