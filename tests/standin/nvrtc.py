"""CUDA C to PTX by NVRTC's wheel, without a GPU; where the wheel is absent, what it made once.

python -m tests.standin.nvrtc      # makes tests/standin/ptx/ again
"""

from __future__ import annotations

import ctypes
import hashlib
import site
from functools import cache
from pathlib import Path

__all__ = ["FOLDER", "compile_cuda", "kept_ptx"]

FOLDER = Path(__file__).resolve().parent / "ptx"
_OPTIONS = (b"--gpu-architecture=compute_80", b"--fmad=false", b"--std=c++17", b"--device-int128")


@cache
def _library() -> ctypes.CDLL | None:
    for packages in site.getsitepackages():
        found = sorted(Path(packages).glob("nvidia/*/lib/libnvrtc.so.*"))
        if not found:
            continue
        # the library finds its second half by name only if that is loaded
        for half in sorted(found[-1].parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(half))
        return ctypes.CDLL(str(found[-1]))
    return None


def compile_cuda(source: str) -> str | None:
    """PTX of CUDA C; None if there is no NVRTC."""
    nvrtc = _library()
    if nvrtc is None:
        return None
    program = ctypes.c_void_p()
    size = ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = (ctypes.c_char_p * len(_OPTIONS))(*_OPTIONS)
    failed = nvrtc.nvrtcCompileProgram(program, len(_OPTIONS), options)
    kind = "ProgramLog" if failed else "PTX"
    getattr(nvrtc, f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if failed:
        raise ValueError(text.value.decode())
    return text.value.decode()


def kept_ptx(name: str, source: str) -> str:
    """PTX of a kernel of `kernels.py` that NVRTC has made once."""
    first, text = (FOLDER / f"{name}.ptx").read_text().split("\n", 1)
    if first != _heading(source):
        raise ValueError(f"the source of {name} has changed: python -m tests.standin.nvrtc makes its PTX again")
    return text


def _heading(source: str) -> str:
    return f"// of the source {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def _keep_all() -> None:
    from tests.standin.kernels import CASES

    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        text = compile_cuda(case.source)
        if text is None:
            raise SystemExit("pip install nvidia-cuda-nvrtc")
        (FOLDER / f"{case.name}.ptx").write_text(f"{_heading(case.source)}\n{text}")


if __name__ == "__main__":
    _keep_all()
