"""The harness must not publish a wrong or unfair figure: its gate, its ratios, its failures."""

import numpy as np
import pytest

import tracejit as tj
from benchmarks import report
from benchmarks.compare import Row, Settings, Team, compare, rotated
from benchmarks.devices import host_time
from benchmarks.fresh import straight_line
from benchmarks.null_device import NullBackend
from benchmarks.worker import prepare
from benchmarks.workload import Case, Workload, distance, reading
from benchmarks.workloads import ALL
from tracejit.backends import registry
from tracejit.support.config import config

CASE = Case("double", "10", "f8", 10)


def doubled(x):
    return x * 2


def arguments(rng, n, dtype):
    return (rng.normal(size=n).astype(dtype),)


@pytest.fixture
def expected(tmp_path):
    path = tmp_path / "expected.npz"
    np.savez(path, *Workload("double", {"10": 10}, arguments, doubled).expected(CASE))
    return str(path)


def test_a_right_result_is_timed(expected):
    prepared, answer = prepare("numpy", Workload("double", {"10": 10}, arguments, doubled), CASE, expected, 0.001)
    assert answer["ok"]
    assert prepared.timer.timeit(prepared.calls) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x * 2.00001,
        lambda x: x[:-1] * 2,
        lambda x: np.full_like(x, np.nan),
        lambda x: (x * 2, x),
    ],
)
def test_a_wrong_result_gets_no_time(wrong, expected):
    workload = Workload("double", {"10": 10}, arguments, doubled, {"numpy": lambda: wrong})
    prepared, answer = prepare("numpy", workload, CASE, expected, 0.001)
    assert prepared is None
    assert "wrong result" in answer["message"]


def test_a_result_that_turns_wrong_later_gets_no_time(expected):
    calls = []

    def tired(x):
        calls.append(1)
        return x * 2 if len(calls) < 2 else x * 3

    workload = Workload("double", {"10": 10}, arguments, doubled, {"numpy": lambda: tired})
    prepared, answer = prepare("numpy", workload, CASE, expected, 0.001)
    assert prepared is None
    assert "repeated" in answer["message"]


def test_distance_is_relative_to_the_largest_and_sees_nan():
    assert distance(np.array([1.0, 2.02]), np.array([1.0, 2.0])) == pytest.approx(0.01)
    assert distance(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])) == 0.25
    assert distance(np.array([np.nan]), np.array([1.0])) == float("inf")


def test_ratio_is_the_median_of_the_rounds_not_the_ratio_of_medians():
    row = Row(CASE, {"numpy": [1.0, 10.0, 2.0], "tracejit": [0.5, 5.0, 4.0]})
    assert row.best_peer() == "numpy"
    assert row.ratio("tracejit") == 0.5
    assert row.ratio("jax") is None


def test_tracejit_is_never_the_yardstick():
    row = Row(CASE, {"tracejit": [1.0], "numba": [2.0], "numpy": [3.0]})
    assert row.best_peer() == "numba"
    assert "**0.50**" in report.table([row], ["numpy", "numba", "tracejit"])


def test_a_failure_is_shown():
    row = Row(CASE, {"numpy": [1.0]}, {"jax": "wrong result: error 3 of what is allowed"})
    assert "failed" in report.table([row], ["numpy", "jax"])
    assert "double 10 f8, jax: wrong result" in report.failures([row])


def test_every_framework_is_first_equally_often():
    first = [rotated(["a", "b", "c"], turn)[0] for turn in range(6)]
    assert first == ["a", "b", "c", "a", "b", "c"]


def test_reading_replaces_a_name_in_the_functions_it_calls_too():
    class Loud:
        @staticmethod
        def abs(x):
            return "loud"

    from benchmarks.workloads import elementwise

    assert reading(lambda x: np.abs(x), np=Loud)(1) == "loud"
    with pytest.raises(AttributeError, match="exp"):
        reading(elementwise.black_scholes, np=_sqrt_and_log_only())(1.0, 1.0, 1.0, 1.0, 1.0)


def _sqrt_and_log_only():
    class Few:
        sqrt, log, abs = np.sqrt, np.log, np.abs

    return Few


def test_names_of_rows_are_unique_and_carry_their_dtype():
    names = [case.name for workload in ALL.values() for case in workload.cases]
    assert len(names) == len(set(names))
    assert {name.split()[-1] for name in names} == {"f4", "f8", "u4"}


@pytest.mark.parametrize("name", ["random_uniform", "random_normal", "random_bits"])
def test_random_numbers_of_another_distribution_do_not_count(name):
    workload = ALL[name]
    for case in workload.cases:
        key, like = workload.inputs(case)
        like = like[:20_000]
        right = workload.numpy(key, like)
        want = [right.astype(np.float64)]
        assert workload.error(case, right, want) <= 1
        off = np.sort(right), right.astype(np.longdouble), right // 2 if right.dtype.kind == "u" else right * 0.9
        for wrong in (*off, right[:9]):
            assert workload.error(case, wrong, want) > 1


def test_straight_line_uses_every_operation_and_stays_small():
    source = straight_line(400)
    assert source.count("\n    x") == 400
    scope = {"np": np}
    exec(source, scope)
    assert np.abs(scope["straight"](np.linspace(-1, 1, 9), np.linspace(0, 1, 9))).max() < 100


def test_two_processes_are_compared_end_to_end():
    settings = Settings(("numpy", "no_such_framework"), rounds=2, batch_seconds=0.002)
    team = Team(settings)
    try:
        (row,) = compare([ALL["call_x_plus_1"].cases[0]], settings, team)
    finally:
        team.close()
    assert len(row.seconds["numpy"]) == 2
    assert "no_such_framework" in row.failures


@pytest.fixture
def null(monkeypatch):
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))
    registry.register_backend("null", NullBackend, priority=-1)
    return registry.get_backend("null").device


def test_a_device_that_does_nothing_is_asked_for_launches_only(null, monkeypatch):
    """What is left of a cached call on its arrays is the host's time: no copies, no memory, one launch a kernel."""
    monkeypatch.setattr(config, "poison", False)  # which fills memory
    arrays = [tj.device_put(np.arange(100.0), "null") for _ in range(10)]
    f = tj.jit(lambda *a: np.exp(sum(a[1:], a[0] + 1)))
    for _ in range(3):  # memory comes from the pool, launches are ready
        f(*arrays)
    before = null.calls.copy()
    for _ in range(5):
        f(*arrays)
    assert null.calls - before == {"enqueue": 5}


def test_the_hosts_time_of_a_call_is_measured_there(null):
    ten = host_time(10)
    assert 0 < ten < 1e-3
    assert null.calls["enqueue"] == 0  # it registers one of its own


def test_kernels_on_a_device_that_does_nothing_are_those_of_a_gpu(null):
    text = tj.jit(lambda x: x @ x.T, backend="null").lower(np.ones((300, 300), "f4")).text("code")
    assert "reqd_work_group_size" in text
    assert "barrier(" in text
