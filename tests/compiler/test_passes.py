"""The passes as a list: what each makes can be dumped, edited and given back; a verifier's error names the pass."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.compiler import passes, pipeline
from tracejit.compiler.passes import Pass
from tracejit.ir.kernel import Kernel
from tracejit.support.config import config
from tracejit.support.errors import UserError, VerifyError
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
        f"scheduled.{kernel}", "build.program", "donate.program", "asm.txt", "code.txt",
    ]  # fmt: skip
    assert [f[:2] for f in files[:14]] == [f"{n:02}" for n in range(14)]
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
        ("10-schedule.*.schedule", "", "unroll L9", "no loop L9"),
        ("12-build.program", "launch", "lunch", "cannot be replaced by a text"),
    ],
)
def test_a_text_that_does_not_fit_is_refused(
    directories: tuple[Path, Path], name: str, old: str, new: str, message: str
):
    dump, edited = directories
    tj.jit(scaled)(X)
    (file,) = dump.glob(f"*/{name}")
    edit(dump, edited, name, old or file.read_text(), new)
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
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
    assert told == [*every, "build", "donate"]
