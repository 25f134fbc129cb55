"""CUDA C to PTX by NVRTC's wheel, without a GPU; where the wheel is absent, what it made once.

python -m tests.standin.nvrtc      # makes tests/standin/ptx/ again
"""

from __future__ import annotations

import ctypes
import site
from functools import cache
from pathlib import Path

__all__ = ["FOLDER", "compile_cuda", "ptx_of"]

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


def ptx_of(name: str, source: str) -> str:
    """PTX of a kernel of `kernels.py`, as NVRTC makes it now or has made it once."""
    return compile_cuda(source) or (FOLDER / f"{name}.ptx").read_text()


def _keep_all() -> None:
    from tests.standin.kernels import CASES

    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        text = compile_cuda(case.source)
        if text is None:
            raise SystemExit("pip install nvidia-cuda-nvrtc")
        (FOLDER / f"{case.name}.ptx").write_text(text)


if __name__ == "__main__":
    _keep_all()
