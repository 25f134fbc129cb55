"""How every supported function is called, as text with holes, and how exact its result must be.

Ufuncs, their methods and operators come from tracejit's own tables.  Functions need a template each: `missing` names those without one.

Holes: {a} {b} {c} any array; {k} a small integer; {n} any Python number; {ax} an axis of {a}; {p} a permutation-like axis pair.
Grades, how a result may differ from NumPy's:
  x  not at all                          z  in the signs of zeros
  >  moves elements: as exact as they    m  by a few units in the last place
  s  as a sum of the elements of {a} in another order         d  as a sum of products of {a} and {b}
  p  as a product in another order       v  as a variance     q  as its root
  i  by rounding of the largest operand  w  by rounding of a polynomial of the operands
"""

from __future__ import annotations

import numpy as np

import tracejit as tj
from tracejit.support.nodes import frozen
from tracejit.tracer.tables import FUNCTIONS, METHODS, UFUNCS

__all__ = ["ALL", "FAMILIES", "Template", "missing"]


@frozen(eq=False)
class Template:
    """A call with holes, of a function."""

    name: str
    text: str
    grade: str = "x"


MATH = frozenset(
    "arctan2 cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh power hypot deg2rad rad2deg radians "
    "degrees arcsinh arccosh arctanh float_power reciprocal".split()
)
ROUNDED = frozenset({"logaddexp", "logaddexp2"})
ZEROS = frozenset({"maximum", "minimum", "fmax", "fmin", "sign"})
PRODUCTS = frozenset({"matmul", "matvec", "vecmat", "vecdot"})
INTEGER_SECOND = frozenset({"left_shift", "right_shift"})
NOT_IN_ORDER = frozenset({"arctan2", "power", "float_power"})
"""Ufuncs that NumPy does not fold in order: np.arctan2.reduce([3, 2, 5, 7]) is arctan2(3, 7) where it has vectors."""
NO_ARRAYS = frozenset(
    {
        "common_type",
        "result_type",
        "can_cast",
        "shares_memory",
        "may_share_memory",
        "einsum_path",
        "shape",
        "ndim",
        "size",
        "min_scalar_type",
        "roots",
    }
)
REFUSED = frozenset(
    {
        "nonzero",
        "flatnonzero",
        "argwhere",
        "unique",
        "union1d",
        "intersect1d",
        "setdiff1d",
        "setxor1d",
        "trim_zeros",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
    }
)
"""Their shapes depend on data."""
DECOMPOSITIONS = frozenset(
    "cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_rank pinv qr slogdet solve svd svdvals tensorinv tensorsolve".split()
)
"""How exact they are depends on the matrix: `tests/numpy/test_decompositions.py` makes theirs."""
ORDERS = frozenset(
    "argpartition corrcoef cov median nanmedian nanpercentile nanquantile partition percentile quantile".split()
)
"""NumPy leaves an order open, or they round between elements: `tests/numpy/test_quantiles.py` and others make theirs."""
TRANSFORMS = frozenset(np.fft.__all__)
"""Fourier transforms are complex: `tests/numpy/test_fourier.py` makes theirs."""
IN_PLACE = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})
"""What the random programs call."""

CALLS: dict[str, str] = {
    # grade: calls of one function, separated by ;
    "copy": "> np.copy({a})", "reshape": "> np.reshape({a}, -1); np.reshape({a}, (-1, 1)); {a}.reshape(1, -1); {a}.reshape(5, -1)",
    "ravel": "> np.ravel({a}); {a}.ravel()", "expand_dims": "> np.expand_dims({a}, {ax}); np.expand_dims({a}, (0, -1))",
    "squeeze": "> np.squeeze({a}); {a}[None].squeeze(0); {a}.squeeze()", "atleast_1d": "> np.atleast_1d({a})",
    "atleast_2d": "> np.atleast_2d({a})", "atleast_3d": "> np.atleast_3d({a})",
    "broadcast_to": "> np.broadcast_to({a}, (2, 3, 5)); np.broadcast_to({a}, (3, 5)); np.broadcast_to({a}, (4, *{a}.shape))",
    "broadcast_arrays": "> np.broadcast_arrays({a}, {b})[0]; np.broadcast_arrays({a}, {b}, {c})[1]",
    "transpose": "> np.transpose({a}); {a}.transpose(); {a}.T; np.transpose({a}, (1, 0)); {a}.transpose(2, 0, 1)",
    "matrix_transpose": "> np.matrix_transpose({a}); {a}.mT; np.linalg.matrix_transpose({a})",
    "swapaxes": "> np.swapaxes({a}, {ax}, 0); {a}.swapaxes(0, -1)", "moveaxis": "> np.moveaxis({a}, 0, -1); np.moveaxis({a}, {ax}, 0)",
    "rollaxis": "> np.rollaxis({a}, {ax}); np.rollaxis({a}, {ax}, 1)", "flip": "> np.flip({a}); np.flip({a}, {ax}); np.flip({a}, (0, -1))",
    "flipud": "> np.flipud({a})", "fliplr": "> np.fliplr({a})", "rot90": "> np.rot90({a}); np.rot90({a}, {k}); np.rot90({a}, 2, (-1, 0))",
    "arange": "x np.arange(5) + {a}; np.arange(1, 11, 2) * {a}; np.arange(0.5, 3, 0.5) + {a}; np.arange(5, 0, -1) - {a}",
    "array": "> np.array({a}); np.array([{a}, {a}]); np.array({a}, ndmin=3); np.array([{a}, {b}]); np.array([{n}, 2]) ",
    "asarray": "> np.asarray({a}); np.asarray([{a}, {b}, {a}])", "asanyarray": "> np.asanyarray({a})",
    "ascontiguousarray": "> np.ascontiguousarray({a}.T)", "asfortranarray": "> np.asfortranarray({a})",
    "require": "> np.require({a}, requirements='C')", "astype": "x {a}.astype('{dtype}'); {a}.astype({b}.dtype); np.astype({a}, np.{name})",
    "diag": "> np.diag({a}); np.diag({a}, {k}); np.diag({a}, -1)", "diagflat": "> np.diagflat({a}); np.diagflat({a}, 1)",
    "empty": "x np.empty(5, '{dtype}').shape[0] + {a}", "empty_like": "x np.empty_like({a}).shape[0] + {b}",
    "eye": "x np.eye(5) * {a}; np.eye(3, 5, {k}, '{dtype}') + {a}", "full": "> np.full((3, 5), {a}); np.full(5, {k}, 'f4')",
    "full_like": "> np.full_like({a}, {k}); np.full_like({a}, {b}); np.full_like({a}, {b}, '{dtype}')",
    "geomspace": "i np.geomspace(1, 100, 5) * {a}", "identity": "x np.identity(5) - {a}",
    "linspace": "i np.linspace(0, 1, 5); np.linspace({a}, {b}, 4); np.linspace({a}, 3, 5, endpoint=False, axis=-1)",
    "logspace": "i np.logspace(0, 2, 5)", "meshgrid": "> np.meshgrid({a}, {b})[0]; np.meshgrid({a}, {b}, indexing='ij')[1]",
    "ones": "x np.ones((3, 1)) * {a}; np.ones(5, '{dtype}') + {a}", "ones_like": "x np.ones_like({a}); np.ones_like({a}, '{dtype}') + {b}",
    "tri": "x np.tri(3, 5, {k}) * {a}", "tril": "> np.tril({a}); np.tril({a}, {k})", "triu": "> np.triu({a}); np.triu({a}, {k})",
    "vander": "p np.vander({a}); np.vander({a}, 3); np.vander({a}, 4, increasing=True)",
    "zeros": "x np.zeros(5) - {a}; np.zeros((), '{dtype}') + {a}", "zeros_like": "x np.zeros_like({a}); np.zeros_like({a}, '{dtype}')",
    "sum": "s np.sum({a}); np.sum({a}, {ax}); {a}.sum({ax}, keepdims=True); np.sum({a}, (0, -1)); np.sum({a}, {ax}, dtype='f8'); "
    "np.sum({a}, {ax}, initial=2); np.sum({a}, {ax}, where={b} > 0); {a}.sum(axis=None, keepdims=True); np.sum({a}, -1, '{dtype}')",
    "prod": "p np.prod({a}); np.prod({a}, {ax}); {a}.prod({ax}, keepdims=True); np.prod({a}, {ax}, initial=3)",
    "max": "z np.max({a}); np.max({a}, {ax}); {a}.max({ax}, keepdims=True); np.max({a}, (0, -1)); np.max({a}, {ax}, initial=3)",
    "min": "z np.min({a}); np.min({a}, {ax}); {a}.min({ax}, keepdims=True); np.min({a}, (0, -1)); np.min({a}, initial=1)",
    "amax": "z np.amax({a}, {ax})", "amin": "z np.amin({a}, {ax})", "ptp": "x np.ptp({a}); np.ptp({a}, {ax}); np.ptp({a}, {ax}, keepdims=True)",
    "all": "x np.all({a}); np.all({a}, {ax}); {a}.all({ax}, keepdims=True)", "any": "x np.any({a}); np.any({a}, {ax}); {a}.any(keepdims=True)",
    "mean": "s np.mean({a}); np.mean({a}, {ax}); {a}.mean({ax}, keepdims=True); np.mean({a}, (0, -1)); np.mean({a}, {ax}, dtype='f4')",
    "var": "v np.var({a}); np.var({a}, {ax}); {a}.var({ax}, keepdims=True); np.var({a}, {ax}, ddof=1)",
    "std": "q np.std({a}); np.std({a}, {ax}); {a}.std({ax}, ddof=1)",
    "argmax": "x np.argmax({a}); np.argmax({a}, {ax}); {a}.argmax({ax}, keepdims=True); np.argmax({a}, keepdims=True)",
    "argmin": "x np.argmin({a}); np.argmin({a}, {ax}); {a}.argmin()",
    "cumsum": "s np.cumsum({a}); np.cumsum({a}, {ax}); {a}.cumsum({ax}, dtype='f8')", "cumprod": "p np.cumprod({a}); np.cumprod({a}, {ax})",
    "cumulative_sum": "s np.cumulative_sum({a}, axis={ax}); np.cumulative_sum({a}, axis={ax}, include_initial=True)",
    "cumulative_prod": "p np.cumulative_prod({a}, axis={ax}); np.cumulative_prod({a}, axis=-1, include_initial=True)",
    "count_nonzero": "x np.count_nonzero({a}) + np.int64(0); np.count_nonzero({a}, {ax}); np.count_nonzero({a} > {b}, {ax}, keepdims=True)",
    "average": "s np.average({a}); np.average({a}, {ax}); np.average({a}, {ax}, weights=np.abs({a}) * 0 + 2); np.average({a}, keepdims=True)",
    "concatenate": "> np.concatenate([{a}, {b}]); np.concatenate([{a}, {b}, {a}], {ax}); np.concatenate([{a}, {b}], axis=None)",
    "stack": "> np.stack([{a}, {b}]); np.stack([{a}, {b}, {a}], -1); np.stack([{a}, {a}], {ax})", "vstack": "> np.vstack([{a}, {b}])",
    "hstack": "> np.hstack([{a}, {b}])", "dstack": "> np.dstack([{a}, {b}])", "column_stack": "> np.column_stack([{a}, {b}])",
    "append": "> np.append({a}, {b}); np.append({a}, {b}, {ax}); np.append({a}, {n})", "block": "> np.block([{a}, {b}]); np.block([[{a}], [{b}]])",
    "tile": "> np.tile({a}, 2); np.tile({a}, (2, 1)); np.tile({a}, (2, 1, 2)); np.tile({a}, 0)",
    "repeat": "> np.repeat({a}, 2); np.repeat({a}, 3, {ax}); {a}.repeat(2, {ax}); np.repeat({a}, [1, 0, 2], 0)",
    "resize": "> np.resize({a}, (2, 4)); np.resize({a}, 7); np.resize({a}, (3,))",
    "roll": "> np.roll({a}, {k}); np.roll({a}, {k}, {ax}); np.roll({a}, (1, -2), (0, -1)); np.roll({a}, -7, {ax})",
    "array_split": "> np.array_split({a}, 2)[0]; np.array_split({a}, 3, {ax})[1]; np.array_split({a}, [1, 2], {ax})[-1]",
    "split": "> np.split({a}, [2])[1]; np.split({a}, 5, -1)[3]; np.split({a}, [1, 1, 4], {ax})[2]", "hsplit": "> np.hsplit({a}, [2])[1]",
    "vsplit": "> np.vsplit({a}, 3)[2]", "dsplit": "> np.dsplit({a}, [1])[0]", "unstack": "> np.unstack({a})[0]; np.unstack({a}, axis={ax})[-1]",
    "delete": "> np.delete({a}, 1); np.delete({a}, {k}, {ax}); np.delete({a}, [0, 2], {ax}); np.delete({a}, slice(None, None, 2), {ax})",
    "insert": "> np.insert({a}, 1, {n}); np.insert({a}, {k}, {b}, {ax}); np.insert({a}, 0, 7, {ax}); np.insert({a}, [0, 2, 0], 7, {ax}); "
    "np.insert({a}, slice(0, 2), {b}, {ax})",
    "dot": "d np.dot({a}, {b}); {a}.dot({b})", "inner": "d np.inner({a}, {b})", "vdot": "d np.vdot({a}, {b})",
    "outer": "x np.outer({a}, {b}); np.linalg.outer({a}, {b})",
    "tensordot": "d np.tensordot({a}, {b}, 1); np.tensordot({a}, {b}, (0, 0)); np.tensordot({a}, {b}, ([0, 1], [0, 1])); np.tensordot({a}, {b}, 0); "
    "np.linalg.tensordot({a}, {b}, axes=1)",
    "matmul": "d {a} @ {b}; np.linalg.matmul({a}, {b}); {a}.T @ {b}; {a} @ {b}.T", "vecdot": "d np.linalg.vecdot({a}, {b})",
    "kron": "x np.kron({a}, {b})", "diagonal": "> np.diagonal({a}); np.diagonal({a}, {k}); {a}.diagonal(0, -1, 0); np.linalg.diagonal({a})",
    "trace": "s np.trace({a}); np.trace({a}, 1); {a}.trace({k}); np.linalg.trace({a})",
    "cross": "d np.cross({a}, {b}); np.cross({a}, {b}, axis=0); np.linalg.cross({a}, {b})",
    "norm": "i np.linalg.norm({a}); np.linalg.norm({a}, axis={ax}); np.linalg.norm({a}, 1, {ax}); np.linalg.norm({a}, np.inf); "
    "np.linalg.norm({a}, -np.inf, {ax}, True); np.linalg.norm({a}, 0, {ax}); np.linalg.norm({a}, 'fro'); np.linalg.norm({a}, 3, {ax})",
    "vector_norm": "i np.linalg.vector_norm({a}); np.linalg.vector_norm({a}, axis={ax}, ord=1)",
    "matrix_norm": "i np.linalg.matrix_norm({a}); np.linalg.matrix_norm({a}, ord=1); np.linalg.matrix_norm({a}, ord=np.inf)",
    "matrix_power": "w np.linalg.matrix_power({a}, 2); np.linalg.matrix_power({a}, 0); np.linalg.matrix_power({a}, 3)",
    "multi_dot": "w np.linalg.multi_dot([{a}, {b}, {c}]); np.linalg.multi_dot([{a}, {b}])",
    "diff": "x np.diff({a}); np.diff({a}, 1, {ax}); np.diff({a}, 2, {ax}); np.diff({a}, axis={ax}, prepend=0); np.diff({a}, append=1)",
    "ediff1d": "x np.ediff1d({a}); np.ediff1d({a}, to_end=3); np.ediff1d({a}, to_begin=[1, 2])",
    "gradient": "i np.gradient({a}); np.gradient({a}, 0.5); np.gradient({a}, axis={ax}); np.gradient({a}, 2, axis=-1, edge_order=2)",
    "trapezoid": "s np.trapezoid({a}); np.trapezoid({a}, dx=0.5, axis={ax})", "unwrap": "i np.unwrap({a}); np.unwrap({a}, axis={ax})",
    "angle": "m np.angle({a}); np.angle({a}, deg=True)", "real_if_close": "> np.real_if_close({a})",
    "diag_indices_from": "x {a}[np.diag_indices_from({a})]", "tril_indices_from": "> {a}[np.tril_indices_from({a}, {k})]",
    "triu_indices_from": "> {a}[np.triu_indices_from({a})]", "ix_": "> {a}[np.ix_([0, 1], [2, 0])]; {a}[np.ix_([1, 0])]",
    "unravel_index": "x np.unravel_index(np.arange(5), (2, 3))[1] + {a}; {a}[np.unravel_index([0, 2], {a}.shape)]",
    "ravel_multi_index": "x np.ravel_multi_index(([0, 1], [2, 0]), (2, 3)) + {a}; np.ravel_multi_index(({a}, {b}), (3, 5), mode='wrap')",
    "apply_along_axis": "s np.apply_along_axis(np.sum, {ax}, {a}); np.apply_along_axis(np.flip, -1, {a})",
    "apply_over_axes": "s np.apply_over_axes(np.sum, {a}, {ax}); np.apply_over_axes(np.sum, {a}, (0, -1))",
    "poly": "w np.poly({a})", "polyadd": "x np.polyadd({a}, {b}); np.polyadd({a}, [1, 2])", "polysub": "x np.polysub({a}, {b})",
    "polymul": "d np.polymul(np.abs({a}) + 1, np.abs({b}) + 1)", "polydiv": "w np.polydiv({a}, [2, 1])[0]",
    "polyder": "x np.polyder({a}); np.polyder({a}, 2)", "polyint": "m np.polyint({a}); np.polyint({a}, 2, k=[1, 2])",
    "polyfit": "i np.polyfit(np.arange(5), {a}, 1)",
    "sinc": "i np.sinc({a})", "i0": "i np.i0(np.clip({a}, -3, 3))", "polyval": "w np.polyval({a}, {b}); np.polyval([1, 2, 3], {a})",
    "convolve": "d np.convolve({a}, {b}); np.convolve({a}, {b}, 'same'); np.convolve({a}, {b}, 'valid')",
    "correlate": "d np.correlate({a}, {b}); np.correlate({a}, {b}, 'full'); np.correlate({a}, {b}, 'same')",
    "einsum": "d np.einsum('ij,jk->ik', {a}, {b}); np.einsum('i,i', {a}, {b}); np.einsum('ij,ij->j', {a}, {b}); np.einsum('ij->ji', {a}); "
    "np.einsum('i,j', {a}, {b}); np.einsum('...i,...i', {a}, {b}); np.einsum('ij->', {a}); np.einsum('kij,ij->k', {a}, {b}); "
    "np.einsum('ii->i', {a}); np.einsum('ij,i', {a}, {b}); np.einsum('ab,cb->ac', {a}, {b})",
    "nanargmax": "x np.nanargmax({a}); np.nanargmax({a}, {ax})", "nanargmin": "x np.nanargmin({a}, {ax})",
    "nancumprod": "p np.nancumprod({a}, {ax})", "nancumsum": "s np.nancumsum({a}, {ax})", "nanmax": "z np.nanmax({a}); np.nanmax({a}, {ax})",
    "nanmean": "s np.nanmean({a}); np.nanmean({a}, {ax})", "nanmin": "z np.nanmin({a}, {ax})", "nanprod": "p np.nanprod({a}, {ax})",
    "nanstd": "q np.nanstd({a}, {ax})", "nansum": "s np.nansum({a}); np.nansum({a}, {ax}, keepdims=True)", "nanvar": "v np.nanvar({a}, {ax})",
    "pad": "> np.pad({a}, 1); np.pad({a}, (2, 1), 'edge'); np.pad({a}, 1, 'reflect'); np.pad({a}, (1, 2), 'symmetric'); np.pad({a}, 2, 'wrap'); np.pad({a}, (1, 2), 'reflect', reflect_type='odd'); "
    "np.pad({a}, 1, constant_values=3); np.pad({a}, (0, 1), 'constant')",
    "isposinf": "x np.isposinf({a})", "isneginf": "x np.isneginf({a})",
    "where": "x np.where({a} > {n}, {b}, {c}); np.where({a}, {b}, {c}); np.where({a} == {b}, {a}, {n}); np.where({a} < 2, {b}, 0)",
    "clip": "z np.clip({a}, 0, 3); np.clip({a}, {b}, {c}); {a}.clip({n}); np.clip({a}, None, {n}); np.clip({a}, {n}, {n}); {a}.clip(max=2)",
    "select": "x np.select([{a} > 1, {b} > 1], [{a}, {b}]); np.select([{a} > {b}], [{c}], {n}); np.select([{a} > 0, {a} < 0], [{a}, {b}])",
    "choose": "x np.choose(np.abs({a}) % 2 > 0, [{b}, {c}]); np.choose(({a} > 1).astype(int), [{b}, 3])",
    "piecewise": "x np.piecewise({a}, [{a} > 1, {a} < 0], [lambda v: v * 2, -1, 0])",
    "nan_to_num": "x np.nan_to_num({a}); np.nan_to_num({a}, nan=1, posinf=2)", "round": "m np.round({a}); {a}.round(1); np.round({a} % 100, -1)",
    "around": "m np.around({a}); np.around({a}, 1)", "fix": "x np.fix({a})", "real": "> np.real({a}); {a}.real", "imag": "x np.imag({a}); {a}.imag",
    "iscomplexobj": "x np.iscomplexobj({a}) + {a}", "isrealobj": "x np.isrealobj({a}) + {a}", "isreal": "x np.isreal({a})",
    "iscomplex": "x np.iscomplex({a})", "isclose": "x np.isclose({a}, {b}); np.isclose({a}, {a}, equal_nan=True); np.isclose({a}, {n})",
    "allclose": "x np.array(np.allclose({a}, {b})); np.array(np.allclose({a}, {a}))",
    "array_equal": "x np.array(np.array_equal({a}, {b})); np.array(np.array_equal({a}, {a}))", "array_equiv": "x np.array(np.array_equiv({a}, {b}))",
    "bincount": "x np.bincount(({a} > 1).astype(int).ravel() + ({a} > 0).ravel(), minlength=4)",
    "histogram": "x np.histogram({a}, 4, (-3, 3))[0]; np.histogram({a}, [-2, 0, 1, 9])[0]; np.histogram({a}, 3, (0, 5), weights={a} > 1)[0]",
    "histogram_bin_edges": "i np.histogram_bin_edges({a}, 3, (0, 5)) + {b}",
    "histogram2d": "x np.histogram2d({a}.ravel(), {a}.ravel(), 3, ((-3, 3), (-2, 4)))[0]",
    "histogramdd": "x np.histogramdd({a}.reshape(-1, 1), [[-3, 0, 2]])[0]",
    "packbits": "x np.packbits({a} > 0); np.packbits({a} > {b}, -1)", "unpackbits": "x np.unpackbits(({a} > 0).astype('u1'))",
    "digitize": "x np.digitize({a}, [0, 1, 2.5]); np.digitize({a}, [3, 1, 0], right=True)",
    "interp": "i np.interp({a}, [0, 1, 3], [2, 4, 1]); np.interp({a}, np.arange(5), np.arange(5) * 2, left=-1)",
    "sort": "> np.sort({a}, kind='stable'); np.sort({a}, {ax}, 'stable'); np.sort({a}, None, 'stable')",
    "sort_complex": "x np.sort_complex({a}); np.sort_complex({a} * 1j)",
    "argsort": "x np.argsort({a}, kind='stable'); {a}.argsort({ax}, 'stable')", "lexsort": "x np.lexsort(({a}, {b}), {ax})",
    "isin": "x np.isin({a}, [0, 1, 2]); np.isin({a}, {b}); np.isin({a}, {b}, invert=True)",
    "searchsorted": "x np.searchsorted([0, 1, 2, 4], {a}); np.searchsorted(np.arange(5), {a}, 'right')",
    "compress": "> np.compress([True, False, True], {a}); np.compress([0, 1], {a}, {ax}); {a}.compress((1, 0, 1), axis={ax})",
    "sliding_window_view": "> np.lib.stride_tricks.sliding_window_view({a}, 2, {ax}); np.lib.stride_tricks.sliding_window_view({a}, 1, {ax})[..., 0]",
    "extract": "> np.extract([1, 0, 1, 1], {a}); np.extract([[False, True], [True, False]], {a})",
    "take": "> np.take({a}, [0, -1, 1]); np.take({a}, 2, {ax}); {a}.take([1, 0], {ax}); np.take({a}, [7, -9], mode='wrap'); np.take({a}, [9], 0, mode='clip')",
    "take_along_axis": "> np.take_along_axis({a}, np.argmax({a}, {ax}, keepdims=True), {ax}); np.take_along_axis({a}, ({a} > 1).astype(int), {ax})",
}  # fmt: skip
OTHER: dict[str, str] = {
    # operators, indexing and methods without a function of their name
    "operators": "x {a} + {b}; {a} - {b}; {a} * {b}; {a} / {b}; {a} // {b}; {a} % {b}; -{a}; +{a}; abs({a}); ~{a}; {a} & {b}; {a} | {b}; {a} ^ {b}; "
    "{a} << ({b} % 8); {a} >> ({b} % 8); {a} == {b}; {a} != {b}; {a} < {b}; {a} <= {b}; {a} > {b}; {a} >= {b}; divmod({a}, {b})[0]; "
    "divmod({a}, {b})[1]; {a} + {b} * {c}; {a} * {b} - {c}; ({a} - {b}) * ({a} + {b}); {a} + {b} + {c}; {a} * 2 + 1; {a} - 0.5 * {b}",
    "powers": "m {a} ** 2; {a} ** 3; {a} ** 0.5; {a} ** 1; {a} ** 0; {a} ** -1; {a} ** {b}; 2 ** {a}; {a} ** {k}; 2.5 ** {a}; {a} ** 2.0",
    "numbers": "x {a} + {n}; {n} - {a}; {a} * {n}; {a} / {n}; {n} / {a}; {a} // {n}; {n} // {a}; {a} % {n}; {n} % {a}; {a} == {n}; {a} < {n}; {a} > {n}; "
    "{n} <= {a}; {a} & {k}; {a} | {k}; {a} ^ {k}; {n} >= {a}; {a} != {n}; {a} + {k}; {a} - {k}; {a} * {k}; {a} // {k}; {a} % {k}; {k} - {a}; "
    "{a} << 3; {a} >> 1; {a} + True; {a} + i0; {a} * i1; f0 * {a}; {a} - f1; {a} + b0; {a} // i1; {a} % i1; {a} > f0; np.where({a} > 0, i0, f1); "
    "np.maximum({a}, f0) + 0; i0 + i1 * f0 - {a}; {a} == i0; {a} / i1; i1 / f0 + {a}; i0 // i1 + {a}; i1 % 3 + {a}; -i0 * {a}",
    "indexing": "> {a}[0]; {a}[-1]; {a}[1:]; {a}[::-1]; {a}[..., 0]; {a}[..., ::2]; {a}[None]; {a}[:, None]; {a}[..., None]; {a}[1:3, ::-1]; {a}[-2:]; "
    "{a}[[0, 2, -1]]; {a}[[True, False, True]]; {a}[:, [1, 0]]; {a}[[0, 1], [1, 2]]; {a}[np.array([[0, 1], [2, 0]])]; {a}[..., [0, 0, 3]]; {a}[2, 1:]; "
    "{a}[:2]; {a}[:-1]; {a}[..., :1]; {a}[..., :-1]; {a}[:1, :2]; {a}[:0]; {a}[:2, ..., :2]; {a}[..., 1:-1]; {a}[:3][::-1]; {a}[1:] - {a}[:-1]; "
    "{a}[5:2]; {a}[3:1:-1]; {a}[()]; {a}[...]; {a}[:-1, -1]; {a}[:, 1, ::2]; {a}[1][..., 1]; {a}[np.argmax({a}) * 0]; {a}[({b} > 1).astype(int)]; "
    "{a}[np.arange(3), :, [1, 0, 2]]; {a}[:, ::-2]; {a}[-1, ..., -1]; {a}[i1 - i1]; {a}[np.ix_([0, 1], [2, 0])]; {a}[:, np.newaxis, 1:]",
    "methods": "> {a}.copy(); {a}.flatten(); {a}.conj(); {a}.ravel()[::2]; {a}.T.reshape(-1); {a}.T.ravel(); {a}.flat[:]; {a}.T.flatten(); {a}.flat[1]; {a}.view()[::-1]",
    "casts": "x {a}.astype(bool); {a}.astype(int); {a}.astype(float); {a}.astype('u1'); {a}.astype('f2'); {a}.astype('i2'); {a}.astype('u8'); {a}.astype('f4'); "
    "{a}.astype('i4').astype('u4'); np.float32({n}) + {a}; np.uint8(3) + {a}; np.int64(-2) * {a}; np.float16(0.5) * {a}; np.bool_(True) & {a}",
    "reductions": "s ({a} * {b}).sum({ax}); ({a} - {a}.mean()).sum(-1); ({a} > {b}).sum({ax}); ({a} > 0).mean(); ({a} == {b}).sum()",
}  # fmt: skip


def _ufuncs() -> list[Template]:
    found: list[Template] = []
    for key in UFUNCS:
        if isinstance(key, str):
            continue
        ufunc, method = key if isinstance(key, tuple) else (key, "")
        name = ufunc.__name__
        grade = (
            "m"
            if name in MATH
            else "i"
            if name in ROUNDED
            else "z"
            if name in ZEROS
            else "d"
            if name in PRODUCTS
            else "x"
        )
        second = "({b} % 8)" if name in INTEGER_SECOND else "({b} > 0).astype('i4')" if name == "ldexp" else "{b}"
        match method:
            case "" if ufunc.nout == 2:
                given = "{a}, {b}" if ufunc.nin == 2 else "{a}"
                texts = [f"np.{name}({given})[0]", f"np.{name}({given})[1]"]
            case "" if ufunc.nin == 1:
                texts = [f"np.{name}({{a}})"]
            case "":
                texts = [f"np.{name}({{a}}, {second})"]
                if grade in "xmz" and name not in INTEGER_SECOND and name != "ldexp":
                    texts += [f"np.{name}({{a}}, {{n}})", f"np.{name}({{k}}, {{a}})"]
            case "reduce" | "accumulate" if name not in NOT_IN_ORDER:
                rounded = "i" if name in MATH | ROUNDED else "z" if name in ZEROS else "x"
                grade = {
                    "add": "s",
                    "subtract": "s",
                    "multiply": "p",
                    "divide": "p",
                    "maximum": "z",
                    "minimum": "z",
                }.get(name, rounded)
                texts = [f"np.{name}.{method}({{a}})", f"np.{name}.{method}({{a}}, {{ax}})"]
            case "outer":
                texts = [f"np.{name}.outer({{a}}, {second})"]
            case _:  # "at" changes its argument
                continue
        found += [Template(name, t, grade) for t in texts]
    return found


def _parsed(table: dict[str, str]) -> list[Template]:
    return [Template(name, t.strip(), calls[0]) for name, calls in table.items() for t in calls[1:].split(";")]


def missing() -> list[str]:
    """Functions and methods that tracejit has and no template calls."""
    tj.jit(lambda x: x + 1)(np.zeros(1))  # fills the tables
    text = " ".join(CALLS.values()) + " ".join(OTHER.values())
    functions = (
        {f.__name__ for f in FUNCTIONS}
        - set(CALLS)
        - NO_ARRAYS
        - REFUSED
        - IN_PLACE
        - DECOMPOSITIONS
        - ORDERS
        - TRANSFORMS
    )
    methods = (
        {m for m in METHODS if f".{m}" not in text}
        - REFUSED
        - ORDERS
        - {"fill", "at", "conjugate", "item", "put", "sort"}
    )
    return sorted(functions | methods)


tj.jit(lambda x: x + 1)(np.zeros(1))
ALL = _ufuncs() + _parsed(CALLS) + _parsed(OTHER)


def _families() -> dict[str, list[Template]]:
    """The templates by what the compiler makes of them."""
    joins = set(
        "concatenate stack hstack vstack dstack block array pad roll tile repeat append insert delete kron".split()
    )
    gathers = set(
        "take take_along_axis choose select where searchsorted digitize interp diag diagonal tril triu trace".split()
    )
    found: dict[str, list[Template]] = {}
    for t in ALL:
        if (
            t.name in PRODUCTS
            or t.name in ("dot", "inner", "outer", "tensordot", "einsum", "vdot", "multi_dot", "matrix_power")
            or "@" in t.text
        ):
            family = "products"
        elif ".accumulate" in t.text or t.name in ("cumsum", "cumprod", "diff", "gradient", "convolve", "correlate"):
            family = "runs"
        elif (
            t.grade in "svpq"
            or ".reduce" in t.text
            or t.name in ("argmax", "argmin", "all", "any", "max", "min", "ptp", "count_nonzero")
        ):
            family = "reductions"
        elif t.name == "indexing":
            family = "slices" if ":" in t.text else "elements of arrays"
        elif t.name in joins:
            family = "joins"
        elif t.name in gathers:
            family = "gathers"
        elif t.grade == ">":
            family = "shapes"
        else:
            family = "elements"
        found.setdefault(family, []).append(t)
    return found


FAMILIES = _families()
