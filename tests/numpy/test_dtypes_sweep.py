"""Functions of one and two arrays, of every pair of dtypes: where NumPy raises TypeError they do, and where it answers
the dtypes are NumPy's, or the function refuses by name what `REFUSED` lists.  Nothing is compiled.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.numpy  # it fills the tables
from tracejit.support.errors import DtypeError, UnsupportedError
from tracejit.tracer.tables import UFUNCS

CODES = "?bBlefdFD"
VALUES = {c: np.array([1, 1, 0, 1] if c == "?" else [1, 2, 1, 3]).astype(c) for c in CODES}
NUMBERS = (True, 2, 2.5, 1j)
OURS = [u for u in UFUNCS if isinstance(u, np.ufunc) and u.signature is None]

NAMES_OF_ONE = """all any amax amin angle argmax argmin argsort argwhere around asarray atleast_2d average conj copy
    corrcoef cov count_nonzero cumprod cumsum cumulative_sum cumulative_prod diag diagflat diff ediff1d empty_like
    flatnonzero flip fix gradient histogram_bin_edges i0 imag isneginf isposinf iscomplex isreal max mean median min
    nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar
    nonzero ones_like packbits poly polyder polyint prod ptp ravel real real_if_close round sinc sort std sum trapezoid
    trim_zeros unique unpackbits unwrap vander var zeros_like fft.fft fft.rfft fft.irfft fft.hfft fft.ihfft
    linalg.norm linalg.vector_norm""".split()
TEXTS_OF_ONE = """
    np.full_like(x, 2); np.roll(x, 1); np.repeat(x, 2); np.tile(x, 2); np.trace(x.reshape(2, 2)); np.quantile(x, 0.5)
    np.percentile(x, 50); np.nanquantile(x, 0.5); np.nanpercentile(x, 50); np.histogram(x, 2); np.partition(x, 1)
    np.argpartition(x, 1); np.choose(x, [1, 2, 3, 4], mode='clip'); np.linspace(x[0], x[1], 3); np.pad(x, 1)
    np.pad(x, 1, 'mean'); np.pad(x, 1, 'linear_ramp'); np.convolve(x, x); x[np.array([0, 1])]; np.take(np.ones(9), x)
    np.arange(9)[x]; np.lexsort((x,)); np.digitize(x, [1, 2]); x**2; x**0.5; 2**x; 2.5**x; -x; ~x; x + 1; x + 1.5
    x + 1j; x // 2; x % 2.5; x / 3; x << 1; x & True; x < 1.5; abs(x); divmod(x, 2); np.clip(x, 1, 2)
    np.clip(x, 0.5, None); np.round(x, 1); np.mean(x, dtype=np.float32); np.sum(x, dtype=np.float32)
    np.sum(x, dtype=np.int8); np.prod(x, dtype=np.complex64); np.cumsum(x, dtype=np.int16); x.astype(np.int32)
    x.astype(bool); x.mean(keepdims=True); np.logspace(x[0], x[1], 3); np.geomspace(x[0], x[1], 3)
    np.select([x > 1], [x], 2.5); np.where(x, 1, 2.5); np.piecewise(x, [x > 1], [1, 2]); np.interp(x, [1, 2], [3, 4])
    np.bitwise_count(x); np.ldexp(x, 2); np.unwrap(x, period=4); np.ediff1d(x, to_begin=1); np.polyval([1, 2], x)
    np.average(x, weights=[1, 2, 3, 4.0]); np.bincount(x, minlength=5); np.linalg.det(x.reshape(2, 2))
    np.linalg.slogdet(x.reshape(2, 2)); np.linalg.qr(x.reshape(2, 2)); np.linalg.matrix_power(x.reshape(2, 2), 3)
    np.linalg.norm(x, 1); np.copysign(x, -1); np.nan_to_num(x, nan=2); x.sum(initial=2); x.max(initial=2.5)"""
NAMES_OF_TWO = """append array_equal allclose convolve correlate dot inner outer kron intersect1d isclose isin matmul
    polyadd polymul polysub polyval setdiff1d setxor1d union1d vdot searchsorted trapezoid cov corrcoef gradient
    unwrap array_equiv""".split()
TEXTS_OF_TWO = """
    np.interp(x, y, y); np.tensordot(x, y, 1); np.copyto(x, y); np.digitize(x, np.sort(y)); np.concatenate([x, y])
    np.stack([x, y]); np.where(x > 1, x, y); np.where(x, y, y); np.clip(x, y, y); np.clip(x, y, None)
    np.average(x, weights=y); np.histogram(x, 2, weights=y); np.histogram(x, np.sort(y)); np.bincount(x, y, 5)
    np.quantile(x, y * 0 + 0.5); np.gradient(x, y[0]); np.linspace(x[0], y[1], 3); np.logspace(x[0], y[1], 3)
    np.geomspace(x[0], y[1], 3); np.choose(x, [y, y, y, y]); np.select([x], [y]); np.take(x, y)
    np.take_along_axis(x, y, 0); np.put(x, [0, 1], y); np.putmask(x, x > 1, y); np.place(x, x > 1, y)
    np.copyto(x, y, 'unsafe'); x.__iadd__(y); x.__imul__(y); x.__itruediv__(y); x.__ipow__(y)
    x.__setitem__(slice(None), y); x.__setitem__(0, y[0]); np.add(y, y, out=x); np.sum(y, out=x[:1].reshape(()))
    x.fill(y[0]); np.fill_diagonal(x.reshape(2, 2), y[0]); np.ediff1d(x, to_begin=y); np.diff(x, prepend=y)
    np.insert(x, 1, y); np.pad(x, 1, constant_values=y[0]); np.lexsort((x, y)); x + y[0]; x[0] * y[0]; x[0] ** y[0]
    divmod(x[0], y[0]); np.einsum('i,i', x, y); np.full_like(x, y[0]); np.array([x, y]); np.array([x[0], y[0]])
    np.sum(x, initial=y[0]); np.max(x, initial=y[0]); np.nan_to_num(x, nan=y[0]); np.add.reduce(x, dtype=y.dtype)
    np.mean(x, dtype=y.dtype); np.cumsum(x, dtype=y.dtype); np.var(x, dtype=y.dtype); np.std(x, dtype=y.dtype)
    np.add(x, x, dtype=y.dtype); np.sin(x, dtype=y.dtype); x.astype(y.dtype); np.searchsorted(x, y[0])
    np.apply_along_axis(lambda v: v * y[0], 0, x); np.cumprod(x, out=y); np.cross(x[:3], y[:3])
    np.maximum.reduce(x, out=y[:1].reshape(()))"""


def of_text(text: str) -> Callable[..., Any]:
    """The value of an expression of x and y, or the x that a statement has changed."""
    code = compile(text.strip(), "sweep", "eval")

    def function(x: Any, y: Any = None) -> Any:
        found = eval(code, {"np": np, "x": x, "y": y})
        return x if found is None else found

    return function


def expressions(names: list[str], texts: str, form: str) -> dict[str, Callable[..., Any]]:
    listed = [f"np.{name}({form})" for name in names]
    listed += [text.strip() for line in texts.splitlines() for text in line.split("; ") if text.strip()]
    return {text: of_text(text) for text in listed}


def methods(nin: int) -> Iterator[str]:
    """Ufuncs of one array or two, and their methods."""
    for u in OURS:
        name = f"np.{u.__name__}"
        if u.nin == nin:
            yield f"{name}(x)" if nin == 1 else f"{name}(x, y)"
        if u.nin == 2 and nin == 2:
            yield f"{name}.outer(x, y)"
        if u.nout == 1 and u.nin == nin:
            yield f"{name}.at(x, [0, 1])" if nin == 1 else f"{name}.at(x, [0, 1, 0, 1], y)"
        if u.nout == 1 and u.nin == 2 and nin == 1:
            yield from (f"{name}.{fold}" for fold in ("reduce(x)", "accumulate(x)", "reduceat(x, [0, 2])"))


ONE = expressions(NAMES_OF_ONE, TEXTS_OF_ONE, "x") | {text: of_text(text) for text in methods(1)}
TWO = expressions(NAMES_OF_TWO, TEXTS_OF_TWO, "x, y") | {text: of_text(text) for text in methods(2)}

COMPLEX, INTEGERS = "FD", "?bBl"
REFUSED: dict[str, tuple[str, str, type[Exception]]] = {
    **dict.fromkeys(("np.median(x)", "np.nanmedian(x)"), (COMPLEX, "", DtypeError)),
    **dict.fromkeys(("np.poly(x)", "np.real_if_close(x)"), (COMPLEX, "", UnsupportedError)),
    "np.histogram(x, 2)": (COMPLEX, "", UnsupportedError),
    "np.histogram(x, 2, weights=y)": (COMPLEX, CODES, UnsupportedError),
    "np.histogram(x, np.sort(y))": (COMPLEX, CODES, UnsupportedError),
    "np.mean(x, dtype=y.dtype)": (CODES, INTEGERS, UnsupportedError),
    "np.var(x, dtype=y.dtype)": (CODES, INTEGERS, UnsupportedError),
    "np.std(x, dtype=y.dtype)": (CODES, INTEGERS, UnsupportedError),
    "np.ldexp.reduce(x)": (INTEGERS, "", UnsupportedError),
    "np.ldexp.reduceat(x, [0, 2])": (INTEGERS, "", UnsupportedError),
    "np.ldexp.accumulate(x)": (INTEGERS, "", UnsupportedError),
}
"""What is refused where NumPy answers: by the dtypes of x and y, and as what.  See docs/limits.md."""
LOST = "would lose the imaginary part"
"""Complex numbers are not made real by chance, of which NumPy warns: docs/limits.md."""
KINDS = (TypeError, ValueError, IndexError, OverflowError)


def dtypes(found: Any) -> list[str]:
    several = found if isinstance(found, (tuple, list)) else (found,)
    return [str(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype) for x in several]


def copied(x: Any) -> Any:
    return x.copy() if hasattr(x, "copy") else x


def outcome(call: Callable[[], Any]) -> tuple[list[str] | None, Exception | None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return dtypes(call()), None
        except Exception as error:
            return None, error


def fault(text: str, f: Callable[..., Any], codes: str, operands: list[Any], traced: list[bool]) -> str:
    """What is wrong with a call, "" if nothing is.  traced: which operands are arguments; others stand in the code."""
    want, theirs = outcome(lambda: f(*map(copied, operands)))

    def inner(*arguments: Any) -> Any:
        given = iter(arguments)
        found = f(*[copied(next(given)) if t else x for x, t in zip(operands, traced, strict=True)])
        return tuple(found) if isinstance(found, (tuple, list)) else found

    got, ours = outcome(lambda: tj.eval_shape(inner, *[x for x, t in zip(operands, traced, strict=True) if t]))
    if want is not None and got is not None:
        return "" if got == want else f"{text} of {codes}: {got}, not {want}"
    if want is not None:
        refused = REFUSED.get(text)
        listed = refused is not None and codes[0] in refused[0] and (len(codes) < 2 or codes[1] in refused[1])
        named = LOST in str(ours) or (refused is not None and listed and isinstance(ours, refused[2]))
        return "" if named else f"{text} of {codes}: {ours!r}, not {want}"
    if got is not None:  # numbers whose values are not known yet fail when the program runs
        later = not isinstance(theirs, TypeError) and not all(isinstance(x, np.ndarray) for x in operands)
        return "" if later else f"{text} of {codes}: {got}, not {theirs!r}"
    alike = any(isinstance(theirs, kind) and isinstance(ours, kind) for kind in KINDS)
    return "" if alike or isinstance(ours, UnsupportedError) else f"{text} of {codes}: {ours!r}, not {theirs!r}"


def found_in(calls: Iterator[str]) -> None:
    faults = [text for text in calls if text]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("code", CODES)
def test_functions_of_one_array_have_numpys_dtypes(code: str):
    found_in(fault(text, f, code, [VALUES[code]], [True]) for text, f in ONE.items())


@pytest.mark.parametrize("code", CODES)
def test_functions_of_two_arrays_have_numpys_dtypes(code: str):
    pairs = itertools.product(TWO.items(), CODES)
    found_in(fault(text, f, code + d, [VALUES[code], VALUES[d]], [True, True]) for (text, f), d in pairs)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("traced", [False, True])
def test_ufuncs_of_an_array_and_a_python_number_have_numpys_dtypes(number: complex, traced: bool):
    binary = [(f"np.{u.__name__}", u) for u in OURS if u.nin == 2]
    for code in CODES:
        x = VALUES[code]
        found_in(fault(f"{name}(x, {number})", u, code, [x, number], [True, traced]) for name, u in binary)
        found_in(fault(f"{name}({number}, x)", u, code, [number, x], [traced, True]) for name, u in binary)


def test_what_is_refused_is_refused_still():
    for text, (of_x, of_y, kind) in REFUSED.items():
        for c, d in itertools.product(of_x, of_y or "?"):
            f = ONE.get(text) or TWO[text]
            with pytest.raises(kind):
                tj.eval_shape(f, *[VALUES[k] for k in (c + d if of_y else c)])
