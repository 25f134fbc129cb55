"""Functions that assert: in a module of their own, as pytest rewrites those of tests."""

from typing import Any


def all_positive(x: Any) -> Any:
    for i in range(x.shape[0]):
        assert x[i] > 0, "not positive"
    return x.sum()


def counting_what_is_said(x: Any) -> Any:
    n, said = 0, [0]

    def message():
        nonlocal n
        n += 1
        said[0] += 1
        return "too small"

    for v in x:
        assert v > -9, message()
    return n, said[0], x.sum()


def with_a_message_that_fails(x: Any) -> Any:
    assert x[0] > 0, {"a": 1}["b"]
    return x[0]


def with_an_element_of_none(x: Any) -> Any:
    assert (x > -5).all(), f"{x[x < -5][0]} is too small"
    return x.sum()


def with_a_number_of_python(x: Any) -> Any:
    assert x[0] > -5, "too small: %d" % x[0]  # noqa: UP031
    return x.sum()


def with_what_is_sorted(x: Any) -> Any:
    assert x[0] > -5, sorted(x)[0]
    return x.sum()


def with_an_index_out_of_range(x: Any) -> Any:
    assert x[0] > -5, x[70]
    return x.sum()


def with_numbers_formatted(x: Any) -> Any:
    assert x[0] > -5, f"{x[0]:.3f} {int(x[0])} {x.tolist()}"
    return x.sum()


def that_changes_an_array(x: Any) -> Any:
    y = x.copy()

    def message():
        y[0] += 1
        return "too small"

    for v in x:
        assert v > -5, message()
    return y
