"""The passes as a list: what each makes can be dumped, edited and given back; a verifier's error names the pass."""

from __future__ import annotations

import itertools
import logging
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tests.backends.plain_c import EVERY_BACKEND
from tracejit.compiler import passes, pipeline
from tracejit.compiler.passes import Pass
from tracejit.ir.kernel import Kernel
from tracejit.support.config import config
from tracejit.support.errors import CompileError, UserError, VerifyError
from tracejit.support.nodes import evolve

X = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where texts are written to, and where edited ones come from."""
    monkeypatch.setattr(config, "dump", str(tmp_path / "dump"))
    monkeypatch.setattr(config, "replace", str(tmp_path / "edited"))
    passes._functions.clear()
    return tmp_path / "dump", tmp_path / "edited"


def scaled(x: Any) -> Any:
    return (x * 2.0).sum(axis=1)


def edit(dump: Path, edited: Path, name: str, old: str, new: str) -> None:
    """Prepare a run in which `new` stands for `old` in one of the texts."""
    (file,) = dump.glob(f"*/{name}")
    text = file.read_text()
    assert old in text
    to = edited / file.relative_to(dump)
    to.parent.mkdir(parents=True)
    to.write_text(text.replace(old, new))
    passes._functions.clear()


def test_every_pass_is_dumped_in_order(directories: tuple[Path, Path]):
    dump, _ = directories
    np.testing.assert_allclose(tj.jit(scaled)(X), scaled(X))
    (folder,) = dump.iterdir()
    assert folder.name == "scaled.0"
    files = sorted(f.name for f in folder.iterdir())
    kernel = "mul_reduce_sum_1.kernel"
    assert [f.split("-", 1)[-1] for f in files] == [
        "staged.jaxpr", "simplify.jaxpr", "cse.jaxpr", "dce.jaxpr", "forms.forms", "fused.groups", f"compose.{kernel}",
        f"merge_loops.{kernel}", f"collapse.{kernel}", f"product.{kernel}", "schedule.mul_reduce_sum_1.schedule",
        f"scheduled.{kernel}", "build.program", "absorb.program", "donate.program", "parts.program",
        "asm.txt", "code.txt",
    ]  # fmt: skip
    assert [f[:2] for f in files[:15]] == [f"{n:02}" for n in range(15)]
    assert all(f.read_text().strip() for f in folder.iterdir() if f.suffix != ".schedule")
    assert (folder / "11-scheduled.mul_reduce_sum_1.kernel").read_text().strip() == tj.jit(scaled).lower(X).text(
        "scheduled"
    ).strip()


def test_functions_and_versions_have_folders_of_their_own(directories: tuple[Path, Path]):
    dump, _ = directories
    f = tj.jit(scaled)
    f(X)
    f(X.astype("f4"))
    tj.jit(lambda x: x + 1)(X)
    assert sorted(p.name for p in dump.iterdir()) == ["main.0", "scaled.0", "scaled.1"]


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("00-staged.jaxpr", "2.0", "3.0", 1.5 * scaled(X)),
        ("03-dce.jaxpr", "2.0", "5.0", 2.5 * scaled(X)),
        ("06-compose.*.kernel", "2.0:f64", "4.0:f64", 2 * scaled(X)),
        ("11-scheduled.*.kernel", "2.0:f64", "1.0:f64", scaled(X) / 2),
        ("10-schedule.*.schedule", "", "", None),
    ],
)
def test_an_edited_text_takes_the_place_of_what_a_pass_made(
    directories: tuple[Path, Path], name: str, old: str, new: str, expected: Any
):
    dump, edited = directories
    tj.jit(scaled)(X)
    if expected is None:  # another schedule: the same values
        (file,) = dump.glob(f"*/{name}")
        edit(dump, edited, name, file.read_text(), "parallel L0 1")
        again = tj.jit(scaled)
        np.testing.assert_allclose(again(X), scaled(X))
        passes._functions.clear()
        assert again.lower(X).text("schedule").endswith(": parallel L0 1")
        return
    edit(dump, edited, name, old, new)
    np.testing.assert_allclose(tj.jit(scaled)(X), expected)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("00-staged.jaxpr", "2.0", "?", "00-staged.jaxpr: "),
        ("06-compose.*.kernel", "in0: f64", "in0: f32", "the buffers are in0: f32"),
        ("11-scheduled.*.kernel", "store", "stare", "11-scheduled"),
        ("10-schedule.*.schedule", "", "unroll L9 2", "10-schedule.*: 'unroll L9 2' is not of the form"),
        ("10-schedule.*.schedule", "", "unroll L9", "no loop L9.*\n.*edited: .*10-schedule.mul_"),
        ("10-schedule.*.schedule", "", "grid rows item", "grid rows item: the cpu .*\n.*edited: .*10-schedule"),
        ("04-forms.forms", "mul", "add", "what forms makes cannot be replaced by a text; jaxprs, kernels"),
        ("05-fused.groups", "kernel", "colonel", "what fused makes cannot be replaced by a text"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(
    directories: tuple[Path, Path], name: str, old: str, new: str, message: str
):
    dump, edited = directories
    tj.jit(scaled)(X)
    (file,) = dump.glob(f"*/{name}")
    edit(dump, edited, name, old or file.read_text(), new)
    with pytest.raises(UserError, match="(?s)" + message.replace("(", r"\(")):
        tj.jit(scaled)(X)


def test_a_pass_that_makes_a_malformed_kernel_is_named(monkeypatch: pytest.MonkeyPatch):
    def broken(work: Any, _: Any) -> Any:
        kernel: Kernel = work.kernel
        return evolve(work, kernel=kernel.with_body((*kernel.body, *kernel.body)))

    monkeypatch.setattr(config, "checks", True)
    monkeypatch.setattr(
        pipeline, "KERNEL_PASSES", (*pipeline.KERNEL_PASSES[:1], Pass("break", broken, pipeline.KERNEL))
    )
    with pytest.raises(VerifyError, match="after pass break"):
        tj.jit(scaled).lower(X)


def test_passes_tell_their_time(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, logger="tracejit.passes"):
        tj.jit(scaled).lower(X)
    told = [record.message.split()[0].rstrip(":") for record in caplog.records]
    every = [
        p.name
        for p in itertools.chain(
            pipeline.JAXPR_PASSES, pipeline.FORM_PASSES, pipeline.GROUP_PASSES, pipeline.KERNEL_PASSES
        )
    ]
    assert told == [*every, "build", "absorb", "donate", "parts"]


@pytest.mark.parametrize("backend", ["cpu", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_edited_code_is_what_runs(directories: tuple[Path, Path], backend: str):
    dump, edited = directories
    tj.jit(scaled, backend=backend)(X)
    # 2.0 as LLVM writes it, and as C does
    text = next(dump.glob("*/code.txt")).read_text()
    old, new = ("0x4000000000000000", "0x4008000000000000") if backend == "cpu" else ("0x1p+1", "0x1.8p+1")
    if old not in text:
        old, new = ("2.0", "3.0") if "2.0" in text else ("2.", "3.")
    edit(dump, edited, "code.txt", old, new)
    np.testing.assert_allclose(tj.jit(scaled, backend=backend)(X), 1.5 * scaled(X))


def test_an_edited_kernel_is_no_longer_the_product_that_its_group_is(directories: tuple[Path, Path]):
    dump, edited = directories
    a, b = np.arange(64.0 * 32).reshape(64, 32), np.arange(32.0 * 48).reshape(32, 48)

    def product(a: Any, b: Any) -> Any:
        return a @ b + 1.0

    np.testing.assert_allclose(tj.jit(product)(a, b), a @ b + 1)
    edit(dump, edited, "06-compose.*.kernel", "1.0:f64", "3.0:f64")
    f = tj.jit(product)
    np.testing.assert_allclose(f(a, b), a @ b + 3)
    passes._functions.clear()
    assert "tile" not in f.lower(a, b).text("schedule")


def looped(x: Any) -> Any:
    return tj.lax.fori_loop(0, 3, lambda i, x: x / np.max(x, axis=1, keepdims=True) + 1.0, x)


@pytest.mark.parametrize("pass_name", ["build", "absorb", "donate"])
def test_an_edited_program_is_what_runs(directories: tuple[Path, Path], pass_name: str):
    dump, edited = directories
    x = expected = np.arange(1.0, 241).reshape(12, 20)  # no kernel of its own: its loop exchanges arrays
    for _ in range(5):
        expected = expected / np.max(expected, axis=1, keepdims=True) + 1.0
    tj.jit(looped)(x)
    edit(dump, edited, f"*-{pass_name}.program", "for _ in 3 {", "for _ in 5 {")
    np.testing.assert_allclose(tj.jit(looped)(x), expected)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("launch", "lunch", "there is no step 'lunch'"),
        ("in0: f64[3, 4]", "in0: f64[4, 3]", "the inputs are in0: f64[4, 3] C; they were in0: f64[3, 4] C"),
        ("return out0", "return in0", "the results are in0: f64[3, 4] C; they were out0: f64[3] C"),
        ("program scaled()", "program scaled(n)", "the extents are (n); they were ()"),
        ("launch mul_reduce_sum_1(in0, out0)", "", "nothing fills the result out0"),
        (
            "launch mul_reduce_sum_1(in0, out0)",
            "launch mul_reduce_sum_1(out0, in0)",
            "out0 has 3 elements, and the",
        ),
    ],
)
def test_a_program_that_does_not_fit_is_refused(directories: tuple[Path, Path], old: str, new: str, message: str):
    dump, edited = directories
    tj.jit(scaled)(X)
    edit(dump, edited, "12-build.program", old, new)
    with pytest.raises(UserError, match=r"12-build\.program: .*" + re.escape(message)) as caught:
        tj.jit(scaled)(X)
    assert "This is a bug in tracejit" not in str(caught.value)


def test_an_edited_program_may_have_other_buffers_and_steps(directories: tuple[Path, Path]):
    dump, edited = directories
    tj.jit(scaled)(X)
    old = "  launch mul_reduce_sum_1(in0, out0)"
    new = "  temporary t9: f64[3]\n  launch mul_reduce_sum_1(in0, t9)\n  copy out0 <- t9"
    edit(dump, edited, "14-donate.program", old, new)
    f = tj.jit(scaled)
    np.testing.assert_allclose(f(X), scaled(X))
    passes._functions.clear()
    assert "copy out0 <- t9" in f.lower(X).text("program")


def test_donation_may_be_edited_in_or_out(directories: tuple[Path, Path]):
    """Which launch has which kernel is told by its arguments."""
    dump, edited = directories

    def f(x: Any, y: Any) -> Any:
        return x - y, x + y

    jitted = tj.jit(f, donate_argnums=(0, 1))
    jitted(X.copy(), X.copy())
    (before,) = dump.glob("*/14-donate.program")
    edit(dump, edited, before.name, "return", "# as it was\n  return")
    for got, want in zip(tj.jit(f, donate_argnums=(0, 1))(X.copy(), X.copy()), f(X, X), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("new", ["512", "3"])
def test_what_a_product_multiplies_cannot_be_edited(directories: tuple[Path, Path], new: str):
    dump, edited = directories
    a, b = np.arange(64.0 * 32).reshape(64, 32), np.arange(32.0 * 48).reshape(32, 48)
    tj.jit(lambda a, b: a @ b)(a, b)
    edit(dump, edited, "09-product.*.kernel", "product(f64, 1, 64", f"product(f64, 1, {new}")
    with pytest.raises(UserError, match=r"09-product.*: what product\(\.\.\.\) says follows from the equations"):
        tj.jit(lambda a, b: a @ b)(a, b)


def test_a_product_that_is_edited_away_is_its_plain_loops(directories: tuple[Path, Path]):
    dump, edited = directories
    a, b = np.arange(64.0 * 32).reshape(64, 32), np.arange(32.0 * 48).reshape(32, 48)
    tj.jit(lambda a, b: a @ b)(a, b)
    (file,) = dump.glob("*/09-product.*.kernel")
    (clause,) = re.findall(r" product\(.*\)(?= \{)", file.read_text())
    edit(dump, edited, file.name, clause, "")
    f = tj.jit(lambda a, b: a @ b)
    np.testing.assert_allclose(f(a, b), a @ b)
    passes._functions.clear()
    assert "tile" not in f.lower(a, b).text("schedule")


@pytest.mark.parametrize("backend", [pytest.param(b, marks=pytest.mark.opencl) for b in EVERY_BACKEND])
def test_every_backend_dumps_the_texts_that_it_has(
    directories: tuple[Path, Path], backend: str, record_backend: Callable[[str], None]
):
    record_backend(backend)
    np.testing.assert_allclose(tj.jit(scaled, backend=backend)(X), scaled(X))
    assert next(directories[0].glob("*/code.txt")).read_text().strip()


def test_the_texts_of_a_whole_dump_may_lie_among_the_edited_ones(directories: tuple[Path, Path]):
    dump, edited = directories
    tj.jit(scaled)(X)
    edit(dump, edited, "00-staged.jaxpr", "2.0", "4.0")
    shutil.copy(next(dump.glob("*/14-donate.program")), next(edited.iterdir()))
    np.testing.assert_allclose(tj.jit(scaled)(X), 2 * scaled(X))


def test_an_edited_text_that_no_pass_asks_for_is_named(directories: tuple[Path, Path]):
    dump, edited = directories
    tj.jit(scaled)(X)
    edit(dump, edited, "00-staged.jaxpr", "2.0", "4.0")
    (file,) = edited.glob("*/00-staged.jaxpr")
    file.rename(file.with_name("77-staged.jaxpr"))
    with pytest.warns(UserWarning, match=r"77-staged\.jaxpr: no pass makes a text of this name"):
        tj.jit(scaled)(X)


def test_the_scheduled_text_is_the_edited_one(directories: tuple[Path, Path]):
    dump, edited = directories
    tj.jit(scaled)(X)
    edit(dump, edited, "11-scheduled.*.kernel", "2.0:f64", "1.0:f64")
    assert "1.0:f64" in tj.jit(scaled).lower(X).text("scheduled")


def test_an_error_names_edited_code(directories: tuple[Path, Path]):
    dump, edited = directories
    tj.jit(scaled)(X)
    edit(dump, edited, "code.txt", "fmul", "fmool")
    with pytest.raises(CompileError, match=r"(?s)edited: [^,]*code\.txt"):
        tj.jit(scaled)(X)
