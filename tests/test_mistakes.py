"""Typical mistakes and uses that are not supported, each compared with NumPy:
the same answer, or an error that shows the user's line.

A case says what must become of it: "same" as NumPy's, "refused" though NumPy answers, "both" raise an error.
"""

# Mistakes are what this file is made of.
# ruff: noqa
import collections
import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.support.errors import TracejitError

X = np.array([1.0, -2.0, 3.0, 0.5])
M = np.arange(12.0).reshape(3, 4)
I = np.array([2, 0, 1])
CASES: list[Any] = []


def expect(outcome: str, *args: Any) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        CASES.append(pytest.param(outcome, function, args, id=function.__name__))
        return function

    return register


def equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, (tuple, list)):
        return type(found) is type(expected) and len(found) == len(expected) and all(map(equal, found, expected))
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(equal(found[k], expected[k]) for k in expected)
    if expected is None or isinstance(expected, str):
        return type(found) is type(expected) and found == expected
    a, b = np.asarray(found), np.asarray(expected)
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.allclose(a, b, equal_nan=True))


def check(outcome: str, function: Any, args: Any) -> None:
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    try:
        expected, raised = function(*theirs), None
    except Exception as error:
        expected, raised = None, error
    try:
        found, refused = tj.jit(function)(*ours), None
    except Exception as error:
        found, refused = None, error
    wanted = {"same": (True, True), "refused": (True, False), "both": (False, False)}[outcome]
    assert (raised is None, refused is None) == wanted, f"{found!r} {refused!r}, NumPy: {expected!r} {raised!r}"
    if outcome == "same":
        assert equal(found, expected), f"{found!r}, NumPy: {expected!r}"
        assert all(map(equal, ours, theirs))
    if outcome == "refused":
        assert isinstance(refused, TracejitError)
        assert refused.location is not None
        assert "test_mistakes.py:" in str(refused)


@expect("both", X)
def with_bcast(x):
    return x + np.ones(3)


@expect("both", M)
def with_matmul(a):
    return a @ a


@expect("both", M)
def with_axis(a):
    return a.sum(axis=2)


@expect("both", M)
def with_axisstr(a):
    return a.sum(axis="0")


@expect("both", M)
def with_axisfloat(a):
    return a.sum(axis=1.0)


@expect("both", M)
def with_reshape(a):
    return a.reshape(5, -1)


@expect("both", M)
def with_reshape2(a):
    return a.reshape(-1, -1)


@expect("both", M, X)
def with_concat(a, x):
    return np.concatenate([a, x])


@expect("both", X)
def with_concat1(x):
    return np.concatenate(x, x)


@expect("both", X)
def with_concatscalar(x):
    return np.concatenate([x[0], x[1]])


@expect("both", M, X)
def with_stack(a, x):
    return np.stack([a, x])


@expect("same", M, X)
def with_vstack(a, x):
    return np.vstack([a, x])


@expect("both", M, X)
def with_hstack(a, x):
    return np.hstack([a, x])


@expect("both", X)
def with_oob(x):
    return x[10]


@expect("both", X)
def with_oobneg(x):
    return x[-5]


@expect("both", M)
def with_oob2(a):
    return a[0, 4]


@expect("both", X)
def with_toomany(x):
    return x[0, 0]


@expect("both", X)
def with_floatidx(x):
    return x[1.0]


@expect("both", X)
def with_stridx(x):
    return x["a"]


@expect("both", X)
def with_fltarr(x):
    return x[x]


@expect("same", X)
def with_listidx(x):
    return x[[0, 1]]


@expect("same", M)
def with_tupidx(a):
    return a[0, 1]


@expect("both", X)
def with_slicef(x):
    return x[0:2.0]


@expect("both", I)
def with_neg_int_pow(i):
    return i ** (-1)


@expect("both", I)
def with_int(i):
    return i.__itruediv__(2)


@expect("both", I)
def with_i_5(i):
    i += 0.5
    return i


@expect("both", X)
def with_x_2d(x):
    x += np.ones((2, 4))
    return x


@expect("both", M)
def with_a_0_3(a):
    a[0] = np.ones(3)
    return a


@expect("both", X)
def with_setstr(a):
    a[0] = "a"
    return a


@expect("same", X)
def with_setnone(a):
    a[0] = None
    return a


@expect("same", M)
def with_setlist(a):
    a[0] = [1, 2, 3, 4]
    return a


@expect("both", M)
def with_setragged(a):
    a[0] = [1, [2]]
    return a


@expect("both", X)
def with_setcomplex(a):
    a[0] = 1j
    return a


@expect("both", X)
def with_addstr(x):
    return x + "a"


@expect("both", X)
def with_addnone(x):
    return x + None


@expect("same", X)
def with_addlist(x):
    return x + [1, 2, 3, 4]


@expect("same", X)
def with_list(x):
    return [1, 2, 3, 4] + x


@expect("both", X)
def with_mul_list(x):
    return [1, 2] * x


@expect("same", X)
def with_cmp_str(x):
    return x == "a"


@expect("same", X)
def with_cmp_none(x):
    return x == None


@expect("same", X)
def with_is_none(x):
    return x is None


@expect("both", X)
def with_none(x):
    return x < None


@expect("both", X)
def with_float(x):
    return (x > 0) & x


@expect("both", X)
def with_float_2(x):
    return ~x


@expect("both", X)
def with_bool(x):
    return -(x > 0)


@expect("both", X)
def with_bool_bool(x):
    return (x > 0) - (x < 1)


@expect("same", X)
def with_bool_bool_2(x):
    return (x > 0) + (x < 1)


@expect("same", I)
def with_1_neg(i):
    return 1 << i


@expect("same", I)
def with_0(i):
    return i % 0


@expect("same", I)
def with_0_2(i):
    return i // 0


@expect("same", X)
def with_x_0(x):
    return x / 0


@expect("both", X)
def with_len0d(x):
    return len(x.sum())


@expect("both", X)
def with_iter0d(x):
    return [v for v in x.sum()]


@expect("both", X)
def with_idx0d(x):
    return x.sum()[0]


@expect("both", X)
def with_call(x):
    return x(0)


@expect("both", X)
def with_attr(x):
    return x.shpae


@expect("both", X)
def with_np_attr(x):
    return np.summ(x)


@expect("both", X)
def with_wrong_kw(x):
    return np.sum(x, axs=0)


@expect("both", X)
def with_wrong_kw2(x):
    return x.sum(foo=1)


@expect("both", X)
def with_few_args(x):
    return np.dot(x)


@expect("both", X)
def with_many_args(x):
    return np.sin(x, x, x)


@expect("both", X)
def with_sin_str(x):
    return np.sin("a")


@expect("both", X)
def with_dtype_bad(x):
    return x.astype("foo")


@expect("same", X)
def with_complex(x):
    return x.astype(complex)


@expect("same", X)
def with_sqrt_complex(x):
    return np.sqrt(x + 0j)


@expect("same", X)
def with_1j_x(x):
    return 1j * x


@expect("refused", X)
def with_object(x):
    return x.astype(object)


@expect("refused", X)
def with_astype_str(x):
    return x.astype(str)


@expect("both", X)
def with_zeros_neg(x):
    return np.zeros(-1) + x


@expect("both", X)
def with_zeros_f(x):
    return np.zeros(3.0)


@expect("both", X)
def with_arange0(x):
    return np.arange(0, 1, 0)


@expect("both", X)
def with_linspace_neg(x):
    return np.linspace(0, 1, -1)


@expect("both", X)
def with_eye_f(x):
    return np.eye(2.0)


@expect("both", M)
def with_transpose_bad(a):
    return a.transpose(0, 0)


@expect("both", M)
def with_swapaxes_bad(a):
    return a.swapaxes(0, 3)


@expect("both", M)
def with_squeeze_bad(a):
    return a.squeeze(0)


@expect("both", M)
def with_einsum_bad(a):
    return np.einsum("ij,jk", a, a)


@expect("both", M)
def with_einsum_bad2(a):
    return np.einsum("ijk->i", a)


@expect("same", X)
def with_clip_none(x):
    return np.clip(x, None, None)


@expect("same", X)
def with_clip(x):
    return np.clip(x)


@expect("both", X)
def with_where2(x):
    return np.where(x > 0, x)


@expect("both", X)
def with_take_oob(x):
    return np.take(x, 7)


@expect("both", X)
def with_repeat_neg(x):
    return np.repeat(x, -1)


@expect("both", X)
def with_split(x):
    return np.split(x, 3)


@expect("both", X)
def with_argmax_empty(x):
    return x[:0].argmax()


@expect("both", X)
def with_max_empty(x):
    return x[:0].max()


@expect("same", X)
def with_mean_empty(x):
    return x[:0].mean()


@expect("both", X)
def with_cross(x):
    return np.cross(x, x)


@expect("both", M, X)
def with_dot3(a, x):
    return np.dot(a.T, x)


@expect("both", M)
def with_diag3(a):
    return np.diag(a[None])


@expect("both", X)
def with_tile_neg(x):
    return np.tile(x, -1)


@expect("same", X)
def with_roll_f(x):
    return np.roll(x, 1.0)


@expect("both", X)
def with_pad_bad(x):
    return np.pad(x, -1)


@expect("both", X)
def with_pad_mode(x):
    return np.pad(x, 1, mode="foo")


@expect("same", M)
def with_order_F(a):
    return a.reshape(4, 3, order="F")


@expect("same", M)
def with_ravel_F(a):
    return a.ravel("F")


@expect("same", X)
def with_out(x):
    return np.add(x, 1, out=x)


@expect("same", X)
def with_out_kw(x):
    return np.sum(x, out=np.zeros(()))


@expect("refused", X)
def with_where_kw(x):
    return np.sqrt(x, where=x > 0)


@expect("same", X)
def with_where_out(x):
    return np.sqrt(x, where=x > 0, out=np.zeros(4))


@expect("same", X)
def with_divmod(x):
    return divmod(x, 2)


@expect("both", X)
def with_pow3(x):
    return pow(x, 2, 3)


@expect("same", X)
def with_abs(x):
    return abs(x)


@expect("both", X)
def with_round(x):
    return round(x)


@expect("same", X)
def with_round1(x):
    return round(x[0], 1)


@expect("same", X)
def with_round0(x):
    return round(x[0])


@expect("same", X)
def with_int_x(x):
    return int(x[0]) + 1


@expect("same", X)
def with_float_x(x):
    return float(x[0]) + 1


@expect("both", X)
def with_float_arr(x):
    return float(x)


@expect("same", X)
def with_bool_x(x):
    return bool(x[0]) + 0


@expect("same", X)
def with_complex_x(x):
    return complex(x[0])


@expect("refused", X)
def with_str_x(x):
    return str(x[0])


@expect("refused", X)
def with_repr(x):
    return repr(x)


@expect("refused", X)
def with_fstr(x):
    return f"{x[0]}"


@expect("refused", X)
def with_fstr2(x):
    return f"{x[0]:.2f}"


@expect("refused", X)
def with_s(x):
    return "%s" % x[0]


@expect("refused", X)
def with_f(x):
    return "%.2f" % x[0]


@expect("refused", X)
def with_format(x):
    return "{:.1f}".format(x[0])


@expect("refused", X)
def with_hash(x):
    return hash(x[0])


@expect("refused", X)
def with_set(x):
    return {x[0], x[1]}


@expect("refused", X)
def with_dict_key(x):
    return {x[0]: 1}


@expect("refused", X)
def with_lookup(x):
    return {1.0: 2}[x[0]]


G = {"n": 0}


LOG = []


CNT = 0


@expect("same", X)
def with_append_global(x):
    LOG.append(1)
    return x + 1


@expect("same", X)
def with_dict_global(x):
    G["n"] += 1
    return x * 2


@expect("refused", X)
def with_store_global(x):
    global CNT
    CNT += 1
    return x


@expect("refused", X)
def with_append_array_global(x):
    LOG.append(x)
    return x + 1


@expect("same", X)
def with_gen(x):

    def g():
        for i in range(3):
            yield (x * i)

    return sum(g())


@expect("same", X)
def with_genexp(x):
    return sum((v * v for v in x))


@expect("same", X)
def with_for_in(x):
    s = 0.0
    for v in x:
        s += v * 2
    return s


@expect("same", M)
def with_for_rows(a):
    out = []
    for r in a:
        out.append(r.sum())
    return np.array(out)


@expect("same", X)
def with_enumer(x):
    return sum((i * v for i, v in enumerate(x)))


@expect("same", X)
def with_zipped(x):
    return [a * b for a, b in zip(x, x[::-1])]


@expect("same", X)
def with_unpack(x):
    a, b, *c = x
    return a + b + sum(c)


@expect("both", X)
def with_unpack_bad(x):
    a, b = x
    return a


@expect("same", X)
def with_builtin_sum(x):
    return (sum(x), min(x), max(x))


@expect("same", X)
def with_builtin_sum2(x):
    return (sum([x, x]), max(x[0], x[1]), min(x[0], 2))


@expect("both", X)
def with_minarr(x):
    return max(x, 0)


@expect("both", X)
def with_maxarrs(x):
    return max(x, x + 1)


@expect("refused", X)
def with_sortedx(x):
    return sorted(x)


@expect("refused", X)
def with_sortkey(x):
    return sorted([x, x], key=lambda v: v[0])


@expect("same", X)
def with_rev(x):
    return list(reversed(x))


@expect("same", X)
def with_anyall(x):
    return (any(x > 0), all(x > 0))


@expect("same", X)
def with_inx(x):
    return 1.0 in x


@expect("same", X)
def with_inlist(x):
    return x in [x]


@expect("same", X)
def with_isx(x):
    y = x
    return (y is x, x[0] is x[0], x is not None)


@expect("same", X)
def with_mathf(x):
    return (math.sin(x[0]), math.sqrt(x[2]), math.pi, math.floor(x[0]), math.hypot(x[0], x[1]))


@expect("both", X)
def with_matharr(x):
    return math.sin(x)


@expect("same", X)
def with_mathgamma(x):
    return math.gamma(x[0])


@expect("same", X)
def with_mathfactorial(x):
    return math.factorial(3) * x


@expect("same", X)
def with_mathisclose(x):
    return math.isclose(x[0], 1.0)


@expect("refused", X)
def with_mathfsum(x):
    return math.fsum(x)


@expect("same", X)
def with_mathprod(x):
    return math.prod(x)


@expect("same", X)
def with_item(x):
    return x[0].item()


@expect("refused", X)
def with_tolist(x):
    return x.tolist()


@expect("same", X)
def with_tryexc(x):
    try:
        return x[10]
    except IndexError:
        return x[0]


@expect("same", X, 7)
def with_trydyn(x, i):
    try:
        return x[i]
    except IndexError:
        return x[0]


@expect("refused", X, np.int64(7))
def with_trydyn2(x, i):
    try:
        return x[i]
    except IndexError:
        return x[0]


@expect("same", X)
def with_tryany(x):
    try:
        if x[0] > 0:
            return x
        return -x
    except Exception:
        return x * 0


@expect("same", X)
def with_trybare(x):
    try:
        y = 1 if x[0] > 0 else 2
    except TypeError:
        y = 3
    return x + y


@expect("same", X)
def with_trydiv(x):
    try:
        return x / 0
    except ZeroDivisionError:
        return x


@expect("same", X)
def with_scalar_div0(x):
    return 1 / x.sum()


@expect("same", X, -1)
def with_pypow(x, n):
    return x * 2**n


@expect("same", X, 3)
def with_pyshift(x, n):
    return (1 << n, n // 2, n % 2, -n // 2, -n % 2, n / 2, ~n, n & 1)


@expect("same", X, 3)
def with_strn(x, n):
    return (f"{n}", str(n), "%d" % n)


@expect("same", X, 3)
def with_dictn(x, n):
    return {"w3": x}[f"w{n}"]


@expect("same", X, 3)
def with_cmpn(x, n):
    return (x if n == 3 else -x, n in (1, 2, 3), [0, 1, 2, 3][n])


@expect("same", X, True)
def with_boolis(x, b):
    return x if b is True else -x


@expect("same", X, None)
def with_noned(x, b):
    return x if b is None else -x


@expect("same", X, True)
def with_boolnot(x, b):
    return (not b, b and 3, b or 4, b + 1, -b, ~b, b * x)


@expect("both", X)
def with_delx(x):
    del x[0]
    return x


@expect("same", X)
def with_delname(x):
    y = x + 1
    del x
    return y


@expect("same", X)
def with_lam(x):
    return (lambda a: a * 2)(x)


@expect("same", X)
def with_rec(x, n=5):
    return x if n == 0 else with_rec(x * 1.1, n - 1)


@expect("refused", X)
def with_recarr(x):
    return x if x[0] > 10 else with_recarr(x * 2)


@expect("same", X)
def with_walrus(x):
    return (y := (x + 1)) * y


@expect("same", X)
def with_match_it(x):
    match x.ndim:
        case 1:
            return x
        case _:
            return -x


@expect("same", X)
def with_matchval(x):
    match x[0]:
        case 1.0:
            return x
        case _:
            return -x


@expect("same", X)
def with_matchseq(x):
    match x:
        case [a, b, *c]:
            return a
        case _:
            return -x


@expect("same", X)
def with_with_it(x):
    with np.errstate(all="ignore"):
        return np.log(x)


class P:
    def __init__(self, v):
        self.v = v

    def __call__(self, x):
        return x * self.v

    def step(self, x):
        self.v = self.v + 1
        return x * self.v

    @property
    def twice(self):
        return self.v * 2

    @staticmethod
    def st(x):
        return x - 1

    @classmethod
    def cl(cls, x):
        return x + 2


p = P(3.0)


@expect("same", X)
def with_objs(x):
    return p(x) + p.twice + P.st(x) + P.cl(x)


@expect("same", X)
def with_newobj(x):
    q = P(x[0])
    return q(x)


@dataclasses.dataclass
class D:
    a: object
    b: float = 2.0


@expect("same", X)
def with_dc(x):
    d = D(x)
    d = dataclasses.replace(d, b=3.0)
    return d.a * d.b


@expect("same", X)
def with_dceq(x):
    return D(1) == D(1)


NT = collections.namedtuple("NT", "a b")


@expect("same", X)
def with_nt(x):
    return NT(x, x + 1)


@expect("same", X)
def with_dic(x):
    d = {"b": x, "a": x + 1}
    d["c"] = d["a"] * 2
    return {k: v * 2 for k, v in d.items()}


@expect("same", X)
def with_defdict(x):
    d = collections.defaultdict(list)
    d["q"].append(x)
    return d["q"][0]


@expect("refused", X)
def with_retset(x):
    return {1, 2}


@expect("refused", X)
def with_retgen(x):
    return (v for v in x)


@expect("refused", X)
def with_retrange(x):
    return range(3)


@expect("refused", X)
def with_retfn(x):
    return lambda: x


@expect("refused", X)
def with_retcls(x):
    return P


@expect("same", X)
def with_retnone(x):
    return None


@expect("same", X)
def with_reduce(x):
    return functools.reduce(lambda a, b: a * b, x)


@expect("same", X)
def with_accumulate(x):
    return list(itertools.accumulate(x))


@expect("same", X)
def with_mapf(x):
    return list(map(np.sin, x))


@expect("refused", X)
def with_filterf(x):
    return list(filter(lambda v: v > 0, x))


@expect("same", X)
def with_partial(x):
    return functools.partial(np.add, 1)(x)


@functools.lru_cache
def cached(n):
    return n * 2


@expect("same", X)
def with_lru(x):
    return cached(3) * x


@expect("refused", X)
def with_lru2(x):
    return cached(x[0])


def deco(f):

    @functools.wraps(f)
    def w(*a):
        return f(*a) + 1

    return w


@deco
def decorated(x):
    return x * 2


@expect("same", X)
def with_listidx_2(x):
    l = [x, x + 1, x + 2]
    return l[int(x[0])]


@expect("same", X)
def with_listarr(x):
    return np.array([x, x * 2])


@expect("same", X)
def with_listmix(x):
    return np.array([x[0], 1, 2.5])


@expect("same", X)
def with_listset(x):
    l = [0] * 4
    for i in range(4):
        l[i] = x[i] * i
    return np.array(l)


@expect("same", X)
def with_appendnp(x):
    r = np.array([])
    for i in range(3):
        r = np.append(r, x[i])
    return r


@expect("same", X)
def with_whilecount(x):
    i = 0
    while i < 3:
        x = x * 2
        i += 1
    return x


@expect("same", X)
def with_forelse(x):
    for i in range(3):
        x = x + i
    else:
        x = x * 2
    return x


@expect("same", X)
def with_assertshape(x):
    assert x.shape == (4,) and x.ndim == 1
    return x


@expect("same", X)
def with_assertdtype(x):
    assert x.dtype == np.float64 and x.dtype == float and (x.dtype.kind == "f")
    return x


@expect("same", X)
def with_isinst(x):
    return (
        isinstance(x, np.ndarray),
        isinstance(x[0], float),
        isinstance(x[0], np.floating),
        isinstance(x, (list, tuple)),
        np.isscalar(x[0]),
        callable(x),
        hasattr(x, "shape"),
        type(x) == np.ndarray,
    )


@expect("same", X)
def with_copies(x):
    return copy.copy(x) + copy.deepcopy(x)


@expect("same", X)
def with_cplx(x):
    return (np.iscomplexobj(x), np.issubdtype(x.dtype, np.floating), np.ndim(x), np.shape(x), np.size(x))


@expect("same", X)
def with_shapes(x):
    return (x.shape[0] * x, len(x), x.size, x.nbytes, x.itemsize)


@expect("same", X)
def with_vect(x):
    return np.vectorize(lambda v: v * 2)(x)


@expect("refused", X)
def with_frompy(x):
    return np.frompyfunc(lambda v: v * 2, 1, 1)(x)


@expect("same", M)
def with_apax(a):
    return np.apply_along_axis(np.sum, 0, a)


@expect("refused", M)
def with_nditer(a):
    return [v for v in np.nditer(a)]


@expect("same", M)
def with_ndindex(a):
    return [a[i] for i in np.ndindex(a.shape)]


@expect("same", M)
def with_flat(a):
    return [v for v in a.flat]


@expect("same", X)
def with_fromit(x):
    return np.fromiter((v for v in x), float)


@expect("same", X)
def with_localsx(x):
    return locals()["x"]


@expect("same", X)
def with_importin(x):
    import numpy as q
    from math import sin

    return q.cos(x) + sin(x[0])


@expect("same", X)
def with_nonloc(x):
    n = 0

    def inc():
        nonlocal n
        n += 1

    inc()
    inc()
    return x + n


@expect("refused", X)
def with_rng(x):
    return x + np.random.normal(size=4)


@expect("refused", X)
def with_rng2(x):
    return x + np.random.default_rng(0).normal(size=4)


@expect("same", X)
def with_tuples(x):
    return ((x,) + (x + 1,), [x] * 2)


@expect("same", X)
def with_slices(x):
    s = slice(1, 3)
    return x[s]


@expect("same", X)
def with_cmpchain(x):
    return 0 < len(x) < 10


@expect("refused", X)
def with_boolidx(x):
    return x[True]


@expect("same", X)
def with_starred(x):
    return np.add(*[x, x])


@expect("same", X)
def with_shadow(x):
    sum = np.sum
    return sum(x)


@expect("both", X)
def with_fstr_err(x):
    if x.ndim == 1:
        raise ValueError(f"bad shape {x.shape}")


@expect("same", X)
def with_swap(x):
    x[0], x[1] = (x[1], x[0])
    return x


@expect("same", X)
def with_augrow(x):
    y = x
    y += 1
    return x


@expect("same", X)
def with_alias(x):
    y = x[1:]
    y *= 2
    return x


@expect("same", X)
def with_nonalias(x):
    y = x[[1, 2]]
    y *= 2
    return x


@expect("same", X)
def with_chained(x):
    a = b = x.copy()
    a += 1
    return b


@expect("refused", X)
def with_npmat(x):
    return np.matrix(x)


@expect("same", X)
def with_nz(x):
    return np.nonzero(np.array([0, 1, 1]))[0] + x[0]


@expect("same", X)
def with_argwh(x):
    return np.argwhere(x > 0)


@expect("same", X)
def with_wh(x):
    return np.where(x > 0)[0]


@expect("same", X)
def with_iscl(x):
    return x if np.allclose(x, x) else -x


@expect("same", X)
def with_arreq(x):
    return x if np.array_equal(x, x) else -x


@expect("same", X)
def with_isnanif(x):
    if np.isnan(x).any():
        return x * 0
    return x


@expect("same", X)
def with_clipneg(x):
    for i in range(len(x)):
        if x[i] < 0:
            x[i] = 0
    return x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("outcome", "function", "args"), CASES)
def test_mistakes_end_as_in_numpy_or_are_refused(outcome: str, function: Any, args: Any):
    check(outcome, function, args)
