"""Router replay on every kind of layout, against transformers with the same experts forced."""

import json
from pathlib import Path

import pytest
import torch

from pivotrl.policy import device
from tests.launch import launch
from tests.policy.replay_reference import make, targets

ALL_IN_ONE = 4096
CASES = [
    {"parallel": {"tensor": 2, "expert": 2}},
    {"parallel": {"pipeline": 2}, "model": {"recompute": "full"}, "training": {"packing": "plain"}},
    {
        "parallel": {"pipeline": 2, "virtual_pipeline": 2},
        "model": {"recompute": "full"},
        "training": {"micro_batch_tokens": ALL_IN_ONE},
    },
    {"parallel": {"expert": 2}, "model": {"recompute": "selective"}, "training": {"packing": "plain"}},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    make(folder)
    return folder


@pytest.mark.slow
def test_replayed_routes_give_what_forced_ones_give(folder: Path) -> None:
    """The checks of `replay_ranks` hold, and log-probs, loss and gradients are the reference's, the routers' too."""
    output = launch(2, Path(__file__).parent / "replay_ranks.py", str(folder), json.dumps(CASES), timeout=500)
    found = [json.loads(line[5:]) for line in output.splitlines() if line.startswith("CASE ")]
    assert len(found) == len(CASES), output
    for case, result in zip(CASES, found, strict=True):
        where = f"{case}: {result}"
        assert result["free"] < 1e-5 and result["forced"] < 1e-5, where
        assert result["moved"] > 0.1, where  # the forced choice is another than the routers' own
        assert result["loss"] < 1e-6, where
        assert max(result["grads"].values()) < 5e-6, where
        assert min(result["grads_with_free_old"].values()) > 0.05, where  # old log-probs have to be replayed too
        if "training" in case:
            prompt_once = case["training"].get("packing") != "plain"
            assert result["replayed_share"] == pytest.approx(share_with_routes(folder, prompt_once)), where
        trainer = result["trainer"]
        assert trainer["share"] == trainer["step_share"] == 1.0, where
        assert trainer["old_routes"] < 1e-5, where
        assert trainer["old_routes_moved"] > 1e-2, where
        assert abs(trainer["ratio"] - 1) > 1e-4, where  # the update that replayed was the second


def share_with_routes(folder: Path, prompt_once: bool) -> float:
    """Share of the trunk's tokens that have a route, where each prompt is there for every sample, or once."""
    samples = torch.load(folder / "reference.pt", weights_only=False)["samples"]
    tokens = routed = 0
    prompts = set()
    for sample in samples:
        known = targets(sample)[:, 0, 0] >= 0
        if prompt_once and tuple(sample.prompt_ids) in prompts:
            known = known[len(sample.prompt_ids) :]
        prompts.add(tuple(sample.prompt_ids))
        tokens, routed = tokens + len(known), routed + int(known.sum())
    return routed / tokens


@pytest.fixture(scope="module")
def layer():
    device.prepare()
    from pivotrl.policy.layer_replay import LayerReplay

    return LayerReplay(torch.uint8)


def top(scores: torch.Tensor, topk: int, *_: object, **__: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.topk(scores, topk, dim=1)


def test_calls_are_counted_apart_forward_and_in_recomputation(layer) -> None:
    """Three micro-batches in flight, checkpointed: each is recomputed with its own target; negative ones are free."""
    from megatron.core.transformer.moe.router_replay import RouterReplay
    from torch.utils.checkpoint import checkpoint

    assert layer not in RouterReplay.global_router_replay_instances, "Megatron's list mixes the models of a process"
    torch.manual_seed(0)
    scores = [torch.randn(4, 5, requires_grad=True) for _ in range(3)]
    targets = [torch.tensor([[0, 1], [2, 3], [4, i], [-1, -1]]) for i in range(3)]
    seen: list[list[list[int]]] = []

    def forward(one: torch.Tensor) -> torch.Tensor:
        chosen, indices = layer.get_replay_topk(one, 2, default_compute_topk=top)
        seen.append(indices.tolist())
        return chosen.exp().sum()

    with layer.over(3, targets):
        losses = [checkpoint(forward, one, use_reentrant=True) for one in scores]
        for loss in losses:
            loss.backward()
    assert len(seen) == 6 and seen[:3] == seen[3:]
    for one, target, indices in zip(scores, targets, seen[:3], strict=True):
        free = top(one, 2)[1][3].tolist()
        assert indices == [*target[:3].tolist(), free]
        mask = torch.zeros_like(one).scatter(1, torch.tensor(indices), 1.0)
        assert torch.equal(one.grad, one.detach().exp() * mask)
    _, indices = layer.get_replay_topk(scores[0], 2, default_compute_topk=top)
    assert torch.equal(indices, top(scores[0], 2)[1]), "outside a pass the router chooses"


def test_a_pass_that_missed_a_micro_batch_stops(layer) -> None:
    scores, target = torch.randn(2, 5), torch.tensor([[0, 1], [2, 3]])
    with pytest.raises(AssertionError), layer.over(2, [target, target]):
        layer.get_replay_topk(scores, 2, default_compute_topk=top)
    with pytest.raises(AssertionError, match="another micro-batch"), layer.over(1, [target[:1]]):
        layer.get_replay_topk(scores, 2, default_compute_topk=top)
