"""tools/bench_fresh.py: two runs are compared at equal total samples."""

import importlib.util

import pytest

from tests.launch import REPOSITORY

spec = importlib.util.spec_from_file_location("bench_fresh", REPOSITORY / "tools" / "bench_fresh.py")
bench = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bench)


def rows(shares: list[float], profiling: int = 0) -> list[dict]:
    return [
        {
            "samples": 8,
            "signal_share": share,
            "reward": 0.5,
            **({"profiling_samples": profiling * i} if profiling else {}),
        }
        for i, share in enumerate(shares)
    ]


def test_the_fresh_run_is_cut_off_where_it_has_spent_as_much() -> None:
    static = rows([0.2] * 40)
    fresh = rows([0.4] * 32 + [1.0] * 8, profiling=2)
    found = bench.compare(static, fresh)
    assert found["static"]["samples"] == 320 and found["static"]["steps"] == 40
    assert found["fresh"]["steps"] == 32 and found["fresh"]["samples"] == 32 * 8 + 31 * 2 <= 320
    assert found["ratio"] == pytest.approx(2.0), "the steps beyond the budget do not count"
    assert "2.00x" in bench.table(found)
    with pytest.raises(ValueError, match="the static run has 5 steps"):
        bench.compare(static[:5], fresh)
