"""Weights of every trainer's layout reach every engine's, bit for bit, within two buffers; a flipped bit is named."""

import json
from pathlib import Path

import pytest

from tests.launch import launch
from tests.policy.tiny import build

FOUR_RANKS = [
    ("moe", {"tensor": 2, "pipeline": 2, "expert": 2}, {"tensor": 1}),
    ("moe", {"tensor": 2, "pipeline": 2, "expert": 2}, {"tensor": 2, "expert_parallel": True}),
    ("moe", {"tensor": 2, "expert": 2, "expert_tensor": 2}, {"tensor": 4}),
    ("moe", {"tensor": 2, "expert": 2}, {"tensor": 2}),
    ("moe", {"expert": 4}, {"tensor": 4, "expert_parallel": True}),
    ("moe_raw_probs", {"tensor": 2, "pipeline": 2}, {"tensor": 2}),
    ("dense", {"tensor": 2, "pipeline": 2}, {"tensor": 4}),
    ("llama_tied", {"pipeline": 2}, {"tensor": 2}),
    ("llama_bias", {"tensor": 2}, {"tensor": 4}),
    ("qwen2", {"tensor": 2, "pipeline": 2}, {"tensor": 2}),
    ("odd_mixtral", {"tensor": 2, "pipeline": 2, "expert": 2}, {"tensor": 2}),
    ("chunked", {"tensor": 2, "pipeline": 2, "virtual_pipeline": 2, "expert": 2}, {"tensor": 2}),
]
"""Model, trainer, engine; the ranks that a layout leaves over are replicas."""
REGIONS = (2048, 1 << 20)
"""Bytes of a message: one that cuts most tensors, and one that takes everything in a round."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    folder: Path = tmp_path_factory.mktemp("models")
    jobs = []
    for number, (kind, layout, engine) in enumerate(FOUR_RANKS):
        if not (folder / kind).exists():
            chunked = kind == "chunked"
            build("moe" if chunked else kind, **({"num_hidden_layers": 4} if chunked else {})).save_pretrained(
                folder / kind
            )
        jobs.append([str(folder / kind), layout, engine, REGIONS[number % 4 == 3]])
    output = launch(4, Path(__file__).with_name("transport_ranks.py"), json.dumps(jobs), timeout=400)
    return [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]


@pytest.mark.parametrize("number", range(len(FOUR_RANKS)), ids=lambda n: f"{FOUR_RANKS[n][0]}-{n}")
def test_every_box_arrives_within_two_buffers(results: list[dict], number: int) -> None:
    for rank in results[number]["ranks"]:
        assert rank["wrong"] == []
        assert rank["buffers"] <= 4 * rank["region"]
        # Beside the buffers: a chunk whose rows are no multiple of 8 bytes is made contiguous to be summed.
        assert rank["buffers"] <= rank["extra"] <= rank["buffers"] + 512, rank


@pytest.mark.parametrize("number", range(len(FOUR_RANKS)), ids=lambda n: f"{FOUR_RANKS[n][0]}-{n}")
def test_a_flipped_bit_is_named_on_every_rank(results: list[dict], number: int) -> None:
    ranks = results[number]["ranks"]
    told = {rank["flipped"] for rank in ranks}
    assert len(told) == 1
    if ranks[0]["sent"]:
        parts = ("model.", "changed between rank 1, where", "checksum", "stopped")
        assert all(part in next(iter(told)) for part in parts)
    else:
        assert told == {""}


def test_most_layouts_send_something(results: list[dict]) -> None:
    assert sum(result["ranks"][0]["sent"] for result in results) > len(results) / 2
    assert max(rank["rounds"] for result in results for rank in result["ranks"]) > 20
