"""Kernels allocate while they run: where there is no memory the program says so,
and nothing is written through a null pointer."""

import ctypes
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.compiled import status_error
from tracejit.backends.cpu.runtime import llvm

PROGRAMS: dict[str, Any] = {
    "operands packed for a product": (lambda x: (x * 2) @ np.sin(x), np.ones((300, 300))),
    "operands packed by each thread": (lambda x: (x * 2) @ np.sin(x), np.ones((16, 150, 150))),
    "sums joined from chunks": (lambda x: np.sum(x * x), np.ones(1_000_000)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_kernel_that_gets_no_memory_ends_with_memory_error(name: str):
    function, x = PROGRAMS[name]
    program = tj.jit(function).lower(x).compile()
    asked: list[int] = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)
    def no_memory(nbytes: int) -> None:
        asked.append(nbytes)

    library = llvm.load(program.code, symbols={"tj_alloc": ctypes.cast(no_memory, ctypes.c_void_p).value or 0})
    words, _ = program._arguments([x], {})
    status = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(library.address("program"))(ctypes.addressof(words))
    assert asked
    assert isinstance(status_error(status), MemoryError)
    np.testing.assert_allclose(program.run([x], {})[0], function(x))
