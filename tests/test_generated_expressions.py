"""Random expressions of every supported function and operator, hundreds in one compiled function, against NumPy."""

import numpy as np
import pytest

from tests.generators import expressions
from tests.generators.expressions import again
from tests.generators.harness import Tally, differs
from tests.generators.templates import ALL, missing
from tests.generators.thresholds import lowered

GROUP = 250


def test_every_function_and_method_has_a_template():
    assert missing() == []


def test_every_template_is_drawn_and_most_are_accepted_by_numpy():
    drawn = {n.template.text for seed in range(12) for n in expressions.group(seed, 500).nodes}
    assert len(drawn) > 0.9 * len(ALL)


def test_an_expression_is_what_its_text_is():
    group = expressions.group(3, 40)
    names = {"np": np, **group.arguments}
    for node in group.nodes:
        if node.error is None:
            with np.errstate(all="ignore"):
                assert differs(eval(node.text, names), node.value) is None
    again(group.nodes, group.arguments)
    assert sum(n.error is None for n in group.nodes) > 30


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_as_numpy_answers(seed: int):
    group, tally = expressions.group(seed, GROUP), Tally()
    found = expressions.verdicts(group, tally)
    assert not found, "\n\n".join(group.alone(node, what) for node, what in found[:3])
    assert sum(tally.refusals.values()) < GROUP // 10, tally.refusals


@pytest.mark.parametrize("seed", range(100, 106))
def test_as_numpy_answers_where_small_arrays_are_treated_as_large_ones(seed: int):
    with lowered(seed) as chosen:
        group = expressions.group(seed, 150)
        found = expressions.verdicts(group)
    assert not found, f"{chosen}\n\n" + "\n\n".join(group.alone(node, what) for node, what in found[:3])


@pytest.mark.parametrize("block", range(6))
def test_what_reads_products_sums_and_joins_where_small_arrays_are_treated_as_large_ones(block: int):
    for seed in range(20 * block, 20 * block + 20):
        with lowered(seed) as chosen:
            made = expressions.pairs(seed, 8)
            found = expressions.verdicts(made)
        assert not found, f"{seed} {chosen}\n\n" + "\n\n".join(made.alone(node, what) for node, what in found[:3])


def test_what_is_wrong_is_found():
    """The comparison sees a wrong value, dtype, shape and sign, and an exception that is missing."""
    group = expressions.group(5, 30)
    results, errors = expressions.run(group, group.nodes)
    for n, node in enumerate(group.nodes):
        if node.error is not None or not node.value.size or node.value.dtype.kind == "b" or np.any(node.tolerance):
            continue
        assert expressions.wrong(results[n], errors.get(n), node, None) is None
        assert expressions.wrong(np.full_like(results[n], 101), None, node, None)
        with np.errstate(over="ignore"):
            other = results[n].astype("c8")
        assert expressions.wrong(other, None, node, None)
        assert expressions.wrong(results[n][None], None, node, None)
        assert expressions.wrong(None, ValueError("x"), node, None)
