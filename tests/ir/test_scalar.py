"""The table of scalar operations: a row says all that verifier and printers ask about an operation."""

import numpy as np
import pytest

from tracejit.backends.c_scalar import scalar_intrinsics
from tracejit.backends.opencl.target import Capabilities, dialect
from tracejit.ir import scalar
from tracejit.ir.check import check_kernel
from tracejit.ir.scalar import ALL_DTYPES, DTYPES, OPS, ScalarOp, result_dtype
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import VerifyError

SPELLED_BY_DTYPES = {"convert", "bitcast"}
OPENCL = dialect(Capabilities())


def test_every_operation_has_a_meaning_on_every_dtype_of_its_row():
    wrong: list[str] = []
    for name, row in OPS.items():
        for dtype in filter(row.accepts, DTYPES):
            if row.result == "whole" and dtype == "f16":
                continue  # there are no complex numbers of two halves
            x = np.ones(2, DTYPES[dtype])
            args = [np.ones(2, bool), x, x] if name == "select" else [x] * row.arity
            want = x.dtype if row.result == "out" else ALL_DTYPES[result_dtype(row, dtype, dtype) or dtype]
            found = np.asarray(row.impl(want, *args)).dtype
            if found != want:
                wrong.append(f"{name}.{dtype} gives {found}")
    assert not wrong


def test_every_operation_is_spelled_in_c_on_every_dtype_of_its_row():
    table = scalar_intrinsics(OPENCL)
    missing = [
        f"{name}.{dtype}"
        for name, row in OPS.items()
        if not row.math and name not in SPELLED_BY_DTYPES and row.result not in ("part", "whole")
        for dtype in filter(row.accepts, DTYPES)
        if table.find(f"{name}.{dtype}") is None
    ]
    assert not missing


def test_halves_are_rounded_where_the_row_says_so():
    table = scalar_intrinsics(OPENCL)
    for name, row in OPS.items():
        entry = table.find(f"{name}.f16")
        if entry is not None and name not in SPELLED_BY_DTYPES:
            assert any(need.endswith("_f16") for need in entry.needs) == row.rounds, name


@pytest.fixture
def of_integers():
    """A new operation: one row."""
    OPS["both"] = ScalarOp("both", 2, "same", 1, scalar.OPS["and"].impl, kinds="iu")
    yield "both"
    del OPS["both"]


def test_the_verifier_knows_the_dtypes_of_a_new_operation_from_its_row(of_integers: str):
    text = "kernel t(y: i64[3] C out) {{\n  for %i in 0..3 {{\n    %a = both {0} {0}\n  }}\n}}"
    check_kernel(parse_kernel(text.format("2")))
    with pytest.raises(VerifyError, match="both is not defined on f32"):
        check_kernel(parse_kernel(text.format("2.0:f32")))
