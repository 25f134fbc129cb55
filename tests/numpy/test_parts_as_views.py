"""`x.real` and `x.imag` of complex arrays are views, as in NumPy."""

import numpy as np
import pytest

import tracejit as tj

pytestmark = pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")


def follows(x):
    v = x.real
    x[0] = 5
    return v


def swapped(x):
    x.real, x.imag = x.imag, x.real
    return x


def of_complex_numbers(x):
    x.real = x * 2
    x.imag = x
    return x


def parts_of_parts(x):
    x.real[1:] = 7
    x.imag[::-1] += 1
    return x.copy()


def turned(x):
    v = x.real.T
    v[1] = 0
    w = np.imag(x)[1:, ::2]
    w *= 3
    return v, w, x + 1


def copied_under_another_shape(x):
    v = x.real.reshape(-1)
    v[0] = 99
    return x, v


def in_a_loop(x):
    v = x.imag
    for i in range(len(x)):
        v[i] = i
        x[i] += 1
    return v


def of_a_part(x):
    v = x[1:].real
    v[0] = 3
    x[1] += 1j
    return v, x[1:].imag


def changed_by_each_other(x):
    v = x.real
    v += x.imag
    return v


def copies(x):
    v = x.real
    w = v.copy()
    v[0] = 8
    return v, w, np.ascontiguousarray(v), x.real.flatten(), np.real(x) + np.imag(x)


def spread(x):
    x.imag = np.arange(x.shape[-1])
    x.real = 3
    return x


def masked(x):
    x.real[x.imag > 0] = 0
    return x


def of_a_new_array(x):
    y = x * 2
    v = y.real
    y[0] = 0
    v[1] = 5
    return y, v


def in_a_branch(x):
    v = x.imag
    if x.real.sum() > 0:
        v[0] = 9
    else:
        x[1] = 4 + 1j
    return v, x


def numbers(x):
    z = x.ravel()[0]
    return z.real, z.imag, z.real + 1


EVERY = [
    follows, swapped, of_complex_numbers, parts_of_parts, turned, copied_under_another_shape, in_a_loop, of_a_part,
    changed_by_each_other, copies, spread, masked, of_a_new_array, in_a_branch, numbers,
]  # fmt: skip


@pytest.mark.parametrize("function", EVERY)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_parts_are_views(function, dtype):
    z = (np.arange(12).reshape(3, 4) * (1 + 0.5j) - (3 - 2j)).astype(dtype)
    jitted = tj.jit(function)
    vectors = [] if function is turned else [z[0], z[:, 1], z[::-1, 0], -z[1]]
    for x in (z, z[:, :3].T, np.asfortranarray(z), -z[:, ::2], *vectors):
        base, ours = x.copy("K"), x.copy("K")
        want, got = function(base), jitted(ours)
        np.testing.assert_array_equal(ours, base, strict=True)
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def test_parts_written_have_derivatives():
    def f(x):
        y = x * (1 + 1j)
        v = y.real
        v[0] = x[1] ** 2
        return np.sum(y.real * 3 + y.imag)

    np.testing.assert_array_equal(tj.grad(f)(np.array([1.0, 2.0])), [1.0, 16.0])
    batch = tj.vmap(lambda x: parts_of_parts(x.copy()))(np.arange(6.0).reshape(2, 3) * (1 + 1j))
    want = np.stack([parts_of_parts(row) for row in np.arange(6.0).reshape(2, 3) * (1 + 1j)])
    np.testing.assert_array_equal(batch, want)


def test_imaginary_parts_of_real_arrays_cannot_be_written():
    def f(x):
        x.imag = 1

    with pytest.raises(TypeError, match="imaginary part"):
        tj.jit(f)(np.ones(3))
