"""Weights streamed out of checkpoints of training runs are those that the ranks held."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pivotrl.policy.dist_read import overlap
from tests.launch import launch
from tests.policy.tiny import build

WORKER = Path(__file__).with_name("stream_ranks.py")


@pytest.mark.slow
def test_streamed_out_of_a_training_run_on_any_layout(tmp_path: Path) -> None:
    cases = [
        ("moe", {"tensor": 2, "expert": 2, "expert_tensor": 2}),
        ("odd_mixtral", {"tensor": 2, "pipeline": 2, "expert": 2}),
        ("qwen2", {"tensor": 2, "pipeline": 2}),
    ]
    for kind, _ in cases:
        build(kind).save_pretrained(tmp_path / kind)
    jobs = [[str(tmp_path / kind), layout] for kind, layout in cases]
    output = launch(4, WORKER, str(tmp_path / "runs"), json.dumps(jobs), timeout=300)
    assert output.count("RESULT [[], []]") == len(cases), output[-4000:]


def points(box) -> set[tuple[int, int]]:
    (a, b), (rows, columns) = box
    return {(i, j) for i in range(a, a + rows) for j in range(b, b + columns)}


@given(
    st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * 2),
    st.tuples(*[st.tuples(*[st.integers(1, 4)] * 2)] * 2),
)
def test_overlap_is_the_common_points(offsets, sizes) -> None:
    one, other = zip(offsets, sizes)
    common = overlap(one, other)
    assert (points(common) if common else set()) == points(one) & points(other)
