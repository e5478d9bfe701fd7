"""The whole map of Qwen3-30B-A3B in a world of 64 ranks, without a weight."""

import json
import math
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pivotrl.policy import map_check, mapping
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig
from pivotrl.policy.map_check import check_map, layout_of_rank
from tests.launch import REPOSITORY
from tests.policy.test_architecture import MIXTRAL, QWEN3_30B_A3B, write
from tests.policy.test_mapping import SMALL, SMALL_DENSE

LAYOUT = {"tensor": 4, "pipeline": 2, "expert": 8}
WORLD = 64
LIVE = (0, 27, 38, 63)
LIMIT_S = 60


def run(*arguments: object) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def test_every_tensor_is_covered_exactly_once_and_live_models_agree(tmp_path: Path) -> None:
    began = os.times()
    folder = write(tmp_path, QWEN3_30B_A3B)
    arch, parallel = Architecture.from_hf(folder), ParallelConfig(**LAYOUT)
    report = check_map(arch, parallel, WORLD)
    assert report.problems == []
    assert (report.tensors, report.elements) == (18867, 30_532_122_624)
    output = run("-m", "tests.policy.map_ranks", folder, json.dumps(LAYOUT), WORLD, *LIVE)
    ranks = [json.loads(line.removeprefix("RESULT ")) for line in output.splitlines() if line.startswith("RESULT ")]
    assert [rank["rank"] for rank in ranks] == list(LIVE)
    for rank in ranks:
        layout = layout_of_rank(parallel, WORLD, rank["rank"])
        assert rank["layout"] == asdict(layout)
        params = mapping.params_of_rank(arch, layout)
        parts = [layout.etp_size if param.expert else layout.tp_size for param in params]
        held = sum(math.prod(part.shard_shape(n)) for param, n in zip(params, parts) for part in param.parts)
        assert rank["elements"] == held
    # Of the processor, its own and the child's: other work on the machine does not count.
    assert sum(os.times()[:4]) - sum(began[:4]) < LIMIT_S


@pytest.mark.parametrize(
    ("arch", "layout", "world"),
    [
        (SMALL, {"tensor": 2, "expert": 2, "expert_tensor": 2}, 8),
        (SMALL, {"tensor": 4, "pipeline": 2, "virtual_pipeline": 2, "expert": 4}, 16),
        (replace(SMALL, name="MixtralForCausalLM", vocab=41, tied=True), {"tensor": 4, "pipeline": 2, "expert": 2}, 8),
        (SMALL_DENSE, {"tensor": 2, "pipeline": 4}, 16),
    ],
)
def test_other_layouts_and_models(arch: Architecture, layout: dict, world: int) -> None:
    report = check_map(arch, ParallelConfig(**layout), world)
    assert report.problems == []
    # Replicas and padding included, the ranks hold no less than a copy each.
    assert report.held >= report.elements


def test_a_broken_map_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    parallel, true = ParallelConfig(tensor=2, pipeline=2, expert=2), mapping.params_of_rank

    def problems(broken) -> list[str]:
        monkeypatch.setattr(map_check, "params_of_rank", lambda arch, layout: broken(true(arch, layout), layout))
        return check_map(SMALL, parallel, 8).problems

    dropped = problems(lambda params, layout: params[:-1] if layout.pp_rank and layout.tp_rank else params)
    assert len(dropped) == 1 and dropped[0].startswith("lm_head.weight: its shards are held {(0, 2): 2} times")
    twice = problems(lambda params, layout: params + params[:1] if layout == layout_of_rank(parallel, 8, 3) else params)
    assert len(twice) == 1 and twice[0].startswith("model.embed_tokens.weight: ")
    same_expert = problems(lambda params, layout: true(SMALL, replace(layout, ep_rank=0)))
    assert len(same_expert) == SMALL.layers * SMALL.experts * 3
    other_layer = problems(lambda params, layout: true(SMALL, replace(layout, pp_rank=0)))
    assert any(problem.startswith("model.norm.weight: ") for problem in other_layer)


def test_the_command(tmp_path: Path) -> None:
    write(tmp_path, MIXTRAL)
    sizes = ("--world", 16, "--tensor", 4, "--expert", 8)
    assert run("tools/convert_hf.py", "map", "--hf", tmp_path, *sizes) == (
        "995 Hugging Face tensors, 46702792704 elements: each is covered exactly once by the 16 ranks, "
        "a copy for each data-parallel rank\n"
    )
