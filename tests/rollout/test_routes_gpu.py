"""Routes from a real engine, which gives them on a GPU only: they are the choices of transformers' routers."""

from pathlib import Path

import pytest
import torch

from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.records import Request
from tests.rollout.tiny import VOCABULARY, save_moe

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


def test_the_engine_s_routes_are_its_routers_choices(tmp_path: Path) -> None:
    """Of prompts computed whole and from the prefix cache, and of sampled tokens; all but 2 % of near-ties."""
    from pivotrl.rollout.engine import Engine

    model = save_moe(tmp_path).eval()
    engine = Engine(RolloutConfig(max_model_len=256, kv_cache_gib=0.25), str(tmp_path), "float32", 0, routes=True)
    draw = torch.Generator().manual_seed(0)
    shared = torch.randint(3, VOCABULARY, (70,), generator=draw).tolist()
    prompts = [shared, [*shared, *torch.randint(3, VOCABULARY, (9,), generator=draw).tolist()], shared[:50]]
    for _ in range(2):  # the second time from the prefix cache
        results = engine.generate([Request(ids, 3, 0, 1.0, 1.0, 24, routes=True) for ids in prompts])
        same = total = 0
        for ids, samples in zip(prompts, results, strict=True):
            for sample in samples:
                assert sample.routes.prompt is samples[0].routes.prompt
                ours = torch.from_numpy(sample.routes.prompt).long(), torch.from_numpy(sample.routes.response).long()
                with torch.no_grad():
                    output = model(torch.tensor([[*ids, *sample.token_ids[:-1]]]), output_router_logits=True)
                theirs = torch.stack(output.router_logits, 1).topk(ours[0].shape[-1], dim=-1).indices
                equal = (torch.cat(ours).sort(-1).values == theirs.sort(-1).values).all(-1)
                same, total = same + int(equal.sum()), total + equal.numel()
        assert same / total > 0.98, (same, total)
