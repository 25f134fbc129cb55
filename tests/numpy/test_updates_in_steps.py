"""Parts that begin at a number of the program along some axes and have steps along others, changed in place."""

import random

import numpy as np
import pytest

import tracejit as tj

EACH = [
    "p[0]",
    "-p[0]",
    "p[1]",
    "::2",
    "::-1",
    "1::2",
    "3:0:-2",
    "::-2",
    ":",
    "1:3",
    "-1",
    "p[0]:",
    "p[0]:p[1]",
    ":p[1]",
]
CHANGES = [
    "b[{}] = 7",
    "b[{}] += 2.5",
    "b[{}] *= -1",
    "b[{}] = b[{}] * 2 + 1",
    "b[{}] = np.abs(b[{}])",
    "b[{}].fill(3)",
]


def _program(seed):
    numbers = random.Random(seed)
    while True:
        index = ", ".join(numbers.choice(EACH) for _ in range(numbers.choice([2, 3])))
        if "p[0]," in f"{index}," or "p[1]," in f"{index},":
            break
    change = numbers.choice(CHANGES)
    text = f"def f(b, p):\n    {change.format(index, index)}\n    return b.sum(axis=0)\n"
    return text


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_parts(first):
    for seed in range(first, first + 20):
        text = _program(seed)
        space = {"np": np}
        exec(text, space)
        f = tj.jit(space["f"])
        for shape in ((3, 4, 5), (4, 4, 4), (5, 3, 6)):
            for p in ([1, 2], [0, 1]):
                have = np.arange(np.prod(shape, dtype=float)).reshape(shape)
                want = have.copy()
                total = space["f"](want, np.array(p))
                np.testing.assert_array_equal(f(have, np.array(p)), total, err_msg=text)
                np.testing.assert_array_equal(have, want, err_msg=text)


def test_what_begins_anywhere_in_steps_is_refused():
    def f(b, i):
        b[i::2] = 1
        return b

    with pytest.raises(NotImplementedError, match="step"):
        tj.jit(f)(np.ones(5), np.array(1))
