"""Interleaved pipelines: which layers a stage's chunks hold, their names, and that no layout can tell their files."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pivotrl.policy.chunks import Chunks
from pivotrl.policy.mapping import Layout, all_tensors, params_of_rank
from tests.launch import launch
from tests.policy.parity_reference import LAYERS
from tests.policy.test_mapping import SMALL
from tests.policy.tiny import build


def test_chunks_take_turns_through_the_layers() -> None:
    """Four runs of layers on two stages of two chunks: 0, 1, 0, 1. Every tensor is on one stage."""
    arch = replace(SMALL, layers=8)
    stages = [params_of_rank(arch, Layout(pp_rank=stage, pp_size=2, vp_size=2)) for stage in (0, 1)]
    runs = {0: {"chunk0.": (0, 1), "chunk1.": (4, 5)}, 1: {"chunk0.": (2, 3), "chunk1.": (6, 7)}}
    for stage, params in enumerate(stages):
        places = {param.names[0]: param.parts[0].name for param in params}
        for prefix, layers in runs[stage].items():
            for local, layer in enumerate(layers):
                name = f"{prefix}decoder.layers.{local}.mlp.router.weight"
                assert places[name] == f"model.layers.{layer}.mlp.gate.weight"
    first, last = ({param.names[0] for param in params} for params in stages)
    assert "chunk0.embedding.word_embeddings.weight" in first
    assert {"chunk1.decoder.final_layernorm.weight", "chunk1.output_layer.weight"} <= last
    held = [part.name for params in stages for param in params for part in param.parts]
    assert sorted(held) == sorted(all_tensors(arch))


def test_one_chunk_is_named_as_the_model_is() -> None:
    model = torch.nn.Linear(2, 3)
    assert [name for name, _ in Chunks([model]).named_parameters()] == ["weight", "bias"]
    Chunks([model]).load_state_dict({"weight": torch.ones(3, 2), "bias": torch.zeros(3)})
    assert model.weight.sum() == 6


def test_several_chunks_have_names_and_state_apart() -> None:
    models = [torch.nn.Linear(2, 3), torch.nn.Linear(4, 1)]
    chunks = Chunks(models)
    names = ["chunk0.weight", "chunk0.bias", "chunk1.weight", "chunk1.bias"]
    assert [name for name, _ in chunks.named_parameters()] == names
    state = {name: torch.full_like(parameter, i) for i, (name, parameter) in enumerate(chunks.named_parameters())}
    chunks.load_state_dict(state)
    assert [parameter.flatten()[0].item() for parameter in chunks.parameters()] == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="Missing key"):
        chunks.load_state_dict({name: x for name, x in state.items() if name != "chunk1.bias"})
    with pytest.raises(AssertionError, match="state of no chunk"):
        chunks.load_state_dict(state | {"weight": torch.zeros(1)})


def test_interleaved_stages_export_save_and_load(tmp_path: Path) -> None:
    """`moe_raw_probs` is tied: the copy of the embedding is in the last stage's last chunk."""
    kinds = ["moe", "moe_raw_probs"]
    for kind in kinds:
        build(kind, num_hidden_layers=LAYERS).save_pretrained(tmp_path / kind)
    folders = [str(tmp_path / kind) for kind in kinds]
    output = launch(2, Path(__file__).with_name("chunks_ranks.py"), *folders, timeout=300)
    assert all(f"CHUNKS HOLD {kind}" in output for kind in kinds), output
