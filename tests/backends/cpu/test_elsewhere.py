"""Code for processors that this machine need not be: it assembles,
with their vectors and without functions that nobody has."""

import os
import re

import numpy as np
import pytest

import tracejit as tj
from tracejit.backends.cpu.codegen.program import emit_program
from tracejit.backends.cpu.runtime import llvm, processor
from tracejit.support.errors import InternalError

RNG = np.random.default_rng(0)
A, B, V = RNG.normal(size=(70, 90)).astype("f4"), RNG.normal(size=(90, 50)).astype("f4"), RNG.normal(size=3001)
H = RNG.normal(size=500).astype("f2")
I64, U8 = RNG.integers(0, 3000, 2000), RNG.integers(0, 255, 2000).astype("u1")


def collatz(n):
    return tj.lax.while_loop(
        lambda c: np.any(c > 1), lambda c: np.where(c % 2 == 0, c // 2, np.where(c > 1, 3 * c + 1, c)), n
    )


def softmax(a):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def counts(x, i):
    out = np.zeros(3001)
    np.add.at(out, i, x[: i.shape[0]])
    return out * 2


KERNELS = {
    "product": (lambda a, b: np.maximum(a @ b, 0), A, B),
    "product of doubles": (lambda a, b: a @ b, A.astype("f8"), B.astype("f8")),
    "product of integers": (lambda a, b: a @ b, A.astype("i4"), B.astype("i4")),
    "row times matrix": (lambda v, m: v @ m, A[0], B),
    "sum": (lambda x: np.sum(x * x), V),
    "softmax": (softmax, A),
    "scan": (np.cumsum, V.astype("f4")),
    "scan of rows": (lambda a: np.cumsum(a, axis=1), A),
    "gather": (lambda x, i: x[i], V, I64),
    "scatter": (counts, V, I64),
    "masks": (lambda x: np.where(x > 0, np.sqrt(np.abs(x)), np.log1p(np.abs(x))), V),
    "stencil": (lambda a: a[1:-1, 1:-1] + a[:-2, 1:-1] - a[2:, 1:-1] + np.roll(a, 1)[1:-1, 1:-1], A),
    "strided": (lambda a: a[::-2, ::3].T * 2, A),
    "mathematics": (lambda x: np.sin(x) + np.arctan2(x, 1 + x) ** 3 + np.tanh(x) + np.cbrt(x), V),
    "mathematics in single": (lambda a: np.exp(a) * np.cos(a) + np.power(np.abs(a), a), A),
    "half": (lambda h: (h * h + 1) / (np.abs(h) + 2), H),
    "half to and from": (lambda h: (h.astype("f8") * 3).astype("f2"), H),
    "half product": (lambda h: h.reshape(20, 25) @ h.reshape(25, 20), H),
    "integers": (lambda i, u: (i // 7 % 5 << 2, u + u, (u > 3) & (u < 200), i.astype("f4"), (i * 0.5).astype("i4")),
    I64, U8), "while": (collatz, I64),
    "sorted loop": (lambda x: tj.lax.fori_loop(0, 9, lambda k, c: c * 0.5 + np.sin(c), x), V),
}  # fmt: skip

# What compiled code may call: the run time, the C library's memory functions, and where there is no instruction fma and
# f16's conversions.
RUNTIME = {*llvm._RUNTIME, "memset", "memcpy", "memmove"}
ALLOWED = {
    "x86-64-v2": RUNTIME | {"fma", "fmaf"},
    "x86-64-v3": RUNTIME - set(llvm._HALF),
    "x86-64-v4": RUNTIME - set(llvm._HALF),
    "aarch64": RUNTIME - set(llvm._HALF),
}
WIDEST = {"x86-64-v2": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm", "aarch64": r"v\d+\.(2d|4s|8h|16b)"}
NARROWER_THAN = {"x86-64-v2": "ymm", "x86-64-v3": "zmm", "x86-64-v4": None, "aarch64": "xmm"}


def called(assembly: str) -> set[str]:
    """The functions that assembly calls and does not define."""
    names = set(re.findall(r"^\s+(?:callq|jmp|bl|b)\s+\*?([A-Za-z_][\w.]*)", assembly, re.MULTILINE))
    return {n.removesuffix("@PLT") for n in names if not re.search(rf"^{re.escape(n)}:", assembly, re.MULTILINE)}


@pytest.mark.parametrize("target", WIDEST)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_code_for_every_processor_assembles(name, target, dynamic):
    function, *args = KERNELS[name]
    with processor.elsewhere(target) as other:
        text = emit_program(tj.jit(function, dynamic_shapes=dynamic).lower(*args).program)
        assembly = other.assembly(text)
        assert called(assembly) <= ALLOWED[target]
        assert re.search(WIDEST[target], assembly)
        narrower = NARROWER_THAN[target]
        assert narrower is None or narrower not in assembly
        assert len(other.object(text)) > 500


def test_each_processor_has_its_own_vectors_and_its_own_key():
    own = processor.vector_bits(), processor.fingerprint()
    seen = {}
    for target in WIDEST:
        with processor.elsewhere(target):
            seen[target] = processor.vector_bits()
            assert str(processor.vector_bits()) in processor.attributes()
            assert target == "aarch64" or processor.features() == processor.level_features(target)
            assert (processor.fingerprint() == own[1]) == (os.environ.get("TRACEJIT_CPU") == target)
    assert seen == {"x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512, "aarch64": 128}
    assert (processor.vector_bits(), processor.fingerprint()) == own


def test_instructions_are_the_processors_own():
    def assembly(target, name):
        function, *args = KERNELS[name]
        with processor.elsewhere(target) as other:
            return other.assembly(emit_program(tj.jit(function).lower(*args).program))

    assert "vfmadd" in assembly("x86-64-v4", "product")
    assert "fmla" in assembly("aarch64", "product")
    assert "fma" not in assembly("x86-64-v2", "product")  # there it would be a function of the C library, for each lane
    assert "vgatherqpd" in assembly("x86-64-v4", "gather")
    assert re.search(r"%k[1-7]", assembly("x86-64-v4", "masks"))
    assert "vcvtph2ps" in assembly("x86-64-v3", "half")
    assert re.search(r"fcvt[ln]?\s", assembly("aarch64", "half to and from"))


def test_code_for_another_processor_is_not_loaded():
    with processor.elsewhere("aarch64"), pytest.raises(InternalError, match="emitted here, not loaded"):
        llvm.load("define void @f() { ret void }")


def test_an_unknown_processor_is_refused():
    with pytest.raises(ValueError, match="x86-64-v9"), processor.elsewhere("x86-64-v9"):
        pass


def test_selected_elements_are_stored_whole():
    """Masked stores are microcode on some processors with AVX2: they are for the ends of rows alone."""
    with processor.elsewhere("x86-64-v3") as other:
        program = tj.jit(lambda x: np.argmax(x, axis=0)).lower(np.ones((4096, 4096), np.float32)).program
        assembly = other.assembly(emit_program(program))
    stored = re.findall(r"vp?maskmov\w+\s+%ymm\d+, %ymm\d+, ", assembly)
    assert len(re.findall(r"vcmpnleps", assembly)) >= 6  # four vectors at a time, and the ends
    assert len(stored) <= 6  # the two accumulators, and the result's two halves
