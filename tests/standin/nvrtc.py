"""CUDA C to PTX by NVRTC's wheel, without a GPU; where the wheel is absent, what it made once.

python -m tests.standin.nvrtc      # makes tests/standin/ptx/ again
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import site
import subprocess
import sys
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
    """PTX of a kernel of `kernels.py`; None if there is no NVRTC."""
    return _all_compiled().get(source)


@cache
def _all_compiled() -> dict[str, str]:
    """PTX of all kernels, by their sources.  In a process of its own: NVRTC looks for the driver, and ends a process
    that has loaded the stand-in.
    """
    command = [sys.executable, "-m", "tests.standin.nvrtc", "compile"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    return json.loads(done.stdout)


def _compile(source: str) -> str | None:
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


def _main(what: str) -> None:
    from tests.standin.kernels import CASES

    made = {case.source: text for case in CASES if (text := _compile(case.source)) is not None}
    if what == "compile":
        print(json.dumps(made))
        return
    if not made:
        raise SystemExit("pip install nvidia-cuda-nvrtc")
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        (FOLDER / f"{case.name}.ptx").write_text(f"{_heading(case.source)}\n{made[case.source]}")


if __name__ == "__main__":
    _main(*sys.argv[1:] or [""])
