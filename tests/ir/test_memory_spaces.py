"""Memory spaces of packages: written in kernels, read again, spelled by printers that know them, refused by others."""

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from tests.backends.plain_c import PlainC
from tracejit.backends.c_like import print_kernels
from tracejit.backends.c_scalar import scalar_intrinsics
from tracejit.backends.opencl import target
from tracejit.backends.registry import get_backend
from tracejit.ir.check import check_kernel
from tracejit.ir.kernel import SPACES, Alloc, Kernel, walk
from tracejit.ir.program import Launch, Program, ProgramBuffer
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import UnsupportedError, VerifyError
from tracejit.support.nodes import evolve

TEXT = """
kernel reversed(x: f32[8] C, out: f32[8] C out) {
  alloc row: f32[8] C bank(3, true)
  for %i0 in 0..8 {
    %0 = load x[%i0]
    store row[%i0] = %0
  }
  for %i1 in 0..8 {
    %1 = sub 7 %i1
    %2 = load row[%1]
    store out[%i1] = %2
  }
}
"""


@attrs.frozen
class Bank:
    number: int
    near: bool


@pytest.fixture
def banks() -> Iterator[None]:
    SPACES.register("bank")(Bank)
    yield
    SPACES.unregister("bank")


def row(kernel: Kernel) -> Any:
    (made,) = (s.buffer for s in walk(kernel.body) if isinstance(s, Alloc))
    return made


@pytest.mark.usefixtures("banks")
def test_a_space_is_printed_and_parsed():
    kernel = parse_kernel(TEXT)
    check_kernel(kernel)
    assert row(kernel).space.value == Bank(3, True)
    assert row(kernel).space is SPACES(Bank(3, True))
    assert "alloc row: f32[8] C bank(3, true)" in str(kernel)
    assert str(parse_kernel(str(kernel))) == str(kernel)
    aligned = parse_kernel(TEXT.replace("true)", "true) align 64"))
    assert row(aligned).alignment == 64
    assert row(aligned).space == "bank(3, true)"


def test_text_that_nobody_knows_is_kept_and_refused_by_the_verifier():
    kernel = parse_kernel(TEXT)
    assert not row(kernel).space.known
    assert str(parse_kernel(str(kernel))) == str(kernel)
    with pytest.raises(
        VerifyError, match=r"row lies in the unknown memory space 'bank\(3, true\)'; memory spaces are "
    ):
        check_kernel(kernel)


def programs() -> Program:
    x, out = ProgramBuffer("x", "f32", (8,), "input"), ProgramBuffer("out", "f32", (8,), "output")
    return Program("main", (x,), (out,), (), (Launch(parse_kernel(TEXT), (x, out)),))


@pytest.mark.usefixtures("banks")
def test_a_printer_that_knows_it_spells_it():
    words = target.Capabilities()
    dialect = evolve(target.dialect(words), spaces={**target.dialect(words).spaces, "bank": "__bank{number}_{near}"})
    source = print_kernels([(parse_kernel(TEXT), 1)], dialect, scalar_intrinsics(dialect)).source
    assert "__bank3_True float" in source


@pytest.mark.usefixtures("banks")
def test_the_reference_backend_runs_it():
    (out,) = get_backend("reference").compile(programs()).run([np.arange(8, dtype="f4")], {})
    assert out.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.usefixtures("banks")
@pytest.mark.parametrize("name", ["cpu", "opencl", "vulkan", "plain_c"])
def test_others_refuse_it(name: str, request: pytest.FixtureRequest):
    if name in ("opencl", "vulkan"):
        request.getfixturevalue("record_backend")(name)
    backend = PlainC() if name == "plain_c" else get_backend(name)
    with pytest.raises(UnsupportedError, match=r"has no bank\(3, true\) memory"):
        backend.compile(programs())
