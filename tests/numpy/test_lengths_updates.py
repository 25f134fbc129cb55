"""Arrays that are changed in place beside arrays with as many elements as data say: after their length is known, and
these arrays themselves.
"""

from typing import Any

import numpy as np
import pytest

from tests.numpy.cases import Cases


def data(generator: np.random.Generator, n: int) -> tuple[Any, ...]:
    x = np.round(2 * generator.standard_normal(n), 1)
    return x, generator.random(n) > generator.choice([0.2, 0.5, 1.0])


CASES = Cases()
case, everywhere = CASES.case, CASES.everywhere


# -- an array of the program's, or an argument, that is changed once a length is known ---------------------------------
@everywhere
def argument_changed_before_and_after(x, m):
    x += 1
    n = (x > 0).sum()
    x[n:] = 2.0


@case
def argument_changed_around_two_lengths(x, m):
    n = (x > 0).sum()
    x[n:] = x[n:] * 0.5
    n = (x > 1).sum()
    x[n:] = 3.0


@case
def array_changed_after_a_selection_of_it(x, m):
    y = x * 2
    z = y[y > 0]
    if len(y):
        y[-1] = 7
    return y, z


@everywhere
def changed_at_the_places_found(x, m):
    y = x * 1
    i = np.flatnonzero(y > 0)
    y[i] = -1
    return y


@everywhere
def changed_in_a_loop_over_places(x, m):
    x += 1
    for i in np.flatnonzero(x != 0):
        x[i] += 1


@case
def changed_in_a_loop_over_what_is_selected(x, m):
    x[x < 0] = 0
    for e in x[x > 1]:
        x[0] += e
    return x


@case
def slice_up_to_a_number_and_its_sum(x, m):
    z = x + 1
    n = m.sum()
    z[n:] = z[:n].sum()
    return z


@everywhere
def filled_and_then_appended(x, m):
    out = np.zeros(len(x) + len(x))
    n = 0
    for v in x:
        if v > 0:
            out[n] = v
            n += 1
    out[n : n + len(x)] = x
    return out


@case
def insertion_sort(x, m):
    a = x.copy()
    for i in range(1, len(a)):
        j = (a[:i] <= a[i]).sum()
        v = a[i]
        a[j + 1 : i + 1] = a[j:i]
        a[j] = v
    return a


@case
def two_sorted_arrays_merged(x, m):
    a, b = np.cumsum(np.abs(x)), np.cumsum(np.abs(x)) * 0.7
    out = np.zeros(len(a) + len(b))
    i = j = k = 0
    while i < len(a) and j < len(b):
        if a[i] <= b[j]:
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
        k += 1
    out[k : k + len(a) - i] = a[i:]
    k = k + len(a) - i
    out[k:] = b[j:]
    return out


@case
def nearest_that_is_left(x, m):
    d = np.outer(x, x)
    t = m.copy()
    for _ in range(2):
        if not t.all():
            j = np.flatnonzero(~t)[np.argmin(d[0][~t])]
            t[j] = True
    return t


@case
def view_changed_around_a_selection_of_it(x, m):
    v = x[1 : m.sum()]
    v += 1
    s = v[v > 1][:1].sum()
    v += 1
    return s, x


# -- what was selected, changed in place -------------------------------------------------------------------------------
@everywhere
def part_of_a_selection(x, m):
    s = x[m]
    s[s > 0] *= 3
    return s


@case
def part_of_a_selection_by_a_mask_of_the_whole(x, m):
    s = np.cumsum(x)[m]
    s[(x > 0)[m]] += 7
    return s


@case
def rows_of_a_selection(x, m):
    a = np.outer(x, x)[m]
    a[a[:, 0] > 0] *= 3
    return a


@case
def beginning_of_a_selection(x, m):
    s = x[m][:3].copy()
    s[:2] = 1
    return s


@case
def ends_of_a_selection(x, m):
    v = x[m]
    v[-1:] = 4
    v[:1] = 5
    return v


@case
def added_at_places_of_a_selection(x, m):
    s, t = x[m], x[m]
    np.add.at(s, np.flatnonzero(s > 0), 1.0)
    t[np.flatnonzero(t > 0)] += 3
    return s, t


@everywhere
def places_in_a_selection_from_outside_of_a_branch(x, m):
    s = x[x > 0]
    t = 0.0
    if x.sum() > 1:
        t = s[np.flatnonzero(s > 1)].sum()
    return t, s


@case
def changed_in_a_branch_at_places_of_it(x, m):
    s = x[m]
    if x.sum() > 0:
        s[np.flatnonzero(s == 1)] += 1
        np.add.at(s, np.flatnonzero(s > 0), 1)
        s[np.nonzero(s > 1)] = 1
    return s


# -- places and slices in what was selected ----------------------------------------------------------------------------
@everywhere
def places_in_a_selection(x, m):
    s = x[m]
    i = np.where(s > 0)[0]
    a = np.outer(x, x)[m]
    return i, s[i], np.where(a > 1), len(np.where(s > 1)[0])


@case
def nothing_taken_of_nothing(x, m):
    s = x[x > 100]
    i = np.flatnonzero(m)
    return s[np.nonzero(s)], s[np.flatnonzero(s > 0)], i[np.flatnonzero(i % 2 == 0)]


@everywhere
def slices_from_the_end_by_length(x, m):
    s = x[m]
    n = len(s)
    return s[n - 1 :], s[: n - 1], s[n - 1 : n], s[n - 2 :], s[n - 3 : n - 1]


@case
def last_by_length(x, m):
    s = x[m]
    n = len(s)
    return s[n - 1] if n > 0 else 0.0


@case
def slices_of_two_arrays_between_the_same_numbers(x, m):
    a = m.sum() - 1
    v = x[x > 0]
    return x[a : a + 2].sum(), v[a : a + 2], x[a : a + 3][a:], x[a:][: a + 1][a - 1 :], x[a : a + 2].ravel()


@pytest.mark.parametrize("f", CASES.functions, ids=lambda f: f.__name__)
def test_what_is_changed_beside_computed_lengths(agree_at_sizes, f):
    agree_at_sizes(f, data)


@pytest.mark.parametrize("backend", ["reference", "opencl"])
@pytest.mark.parametrize("f", CASES.on_every_backend, ids=lambda f: f.__name__)
def test_on_other_backends(agree_at_sizes, f, backend):
    agree_at_sizes(f, data, backend, sizes=(9, 9, 12, 1, 0), seeds=2)
