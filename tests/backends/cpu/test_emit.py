"""What the CPU's kernel emitter writes."""

import numpy as np

import tracejit as tj


def test_copies_of_an_index_share_one_broadcast():
    f, x = tj.jit(lambda x: x * np.arange(x.shape[0])), np.arange(-2048, 2048)
    lowered = f.lower(x)
    (loop,) = [line for line in lowered.text("scheduled").splitlines() if "vector(" in line]
    assert ", 4)" in loop  # four vectors in flight
    assert lowered.text("code").count("zeroinitializer") == 1
    np.testing.assert_array_equal(f(x), x * np.arange(4096))
