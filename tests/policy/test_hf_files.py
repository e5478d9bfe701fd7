"""Reading slices of safetensors folders, writing folders, and what a broken folder is answered with."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pivotrl.policy.architecture import Architecture
from pivotrl.policy.hf_files import INDEX, SINGLE, HfFiles, write_folder
from pivotrl.policy.mapping import all_tensors
from pivotrl.policy.weights import check_known, unknown_tensors


@pytest.fixture
def moe(tiny: Path) -> Path:
    return tiny / "moe"


def stacked(source: Path, target: Path) -> Path:
    """The same model with its experts stored stacked."""
    tensors = load_file(source / SINGLE)
    arch = Architecture.from_hf(source)
    for layer in range(arch.layers):
        prefix = f"model.layers.{layer}.mlp.experts."

        def take(kind: str, expert: int, prefix: str = prefix) -> torch.Tensor:
            return tensors.pop(f"{prefix}{expert}.{kind}_proj.weight")

        experts = range(arch.experts)
        gate_up = [torch.cat([take("gate", expert), take("up", expert)]) for expert in experts]
        tensors[f"{prefix}gate_up_proj"] = torch.stack(gate_up)
        tensors[f"{prefix}down_proj"] = torch.stack([take("down", expert) for expert in experts])
    save_file(tensors, target / SINGLE)
    return target


def test_shards_are_the_chunks_of_the_whole(moe: Path, tmp_path: Path) -> None:
    arch = Architecture.from_hf(moe)
    whole = load_file(moe / SINGLE)
    for files in (HfFiles(moe), HfFiles(stacked(moe, tmp_path))):
        assert unknown_tensors(files, arch) == []
        for tensor in all_tensors(arch).values():
            for part in range(2):
                shard = files.read(tensor.name, tensor.shape, tensor.dim, part, 2)
                assert torch.equal(files.copy(tensor.name, tensor.shape), whole[tensor.name])
                expected = whole[tensor.name]
                if tensor.dim is not None:
                    expected = expected.chunk(2, tensor.dim)[part]
                assert torch.equal(shard, expected), tensor.name


def test_mixtral_stacked_as_transformers_5_holds_it_in_memory(tiny: Path, tmp_path: Path) -> None:
    import transformers

    source = tiny / "odd_mixtral"
    memory = transformers.AutoModelForCausalLM.from_pretrained(source).state_dict()
    assert "model.layers.0.mlp.experts.gate_up_proj" in memory
    save_file(memory, tmp_path / SINGLE)
    arch, files, whole = Architecture.from_hf(source), HfFiles(tmp_path), load_file(source / SINGLE)
    assert unknown_tensors(files, arch) == []
    for tensor in all_tensors(arch).values():
        assert torch.equal(files.copy(tensor.name, tensor.shape), whole[tensor.name]), tensor.name


def test_the_last_shard_of_a_vocabulary_ends_in_zeros(tiny: Path) -> None:
    files = HfFiles(tiny / "odd_mixtral")
    whole = files.whole("lm_head.weight")
    shards = [files.read("lm_head.weight", (97, 48), 0, part, 4) for part in range(4)]
    assert torch.equal(torch.cat(shards), torch.cat([whole, torch.zeros(3, 48)]))


def test_written_in_several_files_it_is_the_same_model(moe: Path, tmp_path: Path) -> None:
    whole = load_file(moe / SINGLE)
    assert write_folder(iter(whole.items()), moe, tmp_path, torch.float32, max_bytes=50_000) == len(whole)
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 3
    files = HfFiles(tmp_path)
    assert files.file_of.keys() == whole.keys()
    assert all(torch.equal(files.whole(name), whole[name]) for name in whole)
    import transformers

    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    reference = torch.load(moe / "reference.pt")
    with torch.no_grad():
        torch.testing.assert_close(loaded(input_ids=reference["inputs"]).logits, reference["logits"])


def test_dtype_of_the_written_config_follows_the_weights(moe: Path, tmp_path: Path) -> None:
    write_folder(iter(load_file(moe / SINGLE).items()), moe, tmp_path, torch.bfloat16)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    assert HfFiles(tmp_path).dtype == torch.bfloat16
    assert not list(tmp_path.glob("*.partial"))


def copy(source: Path, target: Path, drop: str | None = None, **replaced: torch.Tensor) -> Path:
    tensors = {name: tensor for name, tensor in load_file(source / SINGLE).items() if name != drop}
    save_file({**tensors, **{name.replace("__", "."): tensor for name, tensor in replaced.items()}}, target / SINGLE)
    return target


def test_missing_tensor(moe: Path, tmp_path: Path) -> None:
    files = HfFiles(copy(moe, tmp_path, drop="model.norm.weight"))
    with pytest.raises(ValueError, match=r"no tensor 'model.norm.weight' \(of shape \[48\]\) among its 68"):
        files.read("model.norm.weight", (48,), None, 0, 1)


def test_wrong_shape(moe: Path, tmp_path: Path) -> None:
    files = HfFiles(copy(moe, tmp_path, model__norm__weight=torch.ones(47)))
    with pytest.raises(ValueError, match=r"'model.norm.weight' has shape \[47\], but config.json makes"):
        files.read("model.norm.weight", (48,), None, 0, 1)


def test_unknown_tensor_is_named(moe: Path, tmp_path: Path) -> None:
    files = HfFiles(copy(moe, tmp_path, model__layers__2__mlp__gate__weight=torch.ones(1)))
    assert unknown_tensors(files, Architecture.from_hf(moe)) == ["model.layers.2.mlp.gate.weight"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "neither model.safetensors nor model.safetensors.index.json"),
        ({SINGLE: b"\x08\0\0\0\0\0\0\0garbage"}, "not a whole safetensors file"),
        ({INDEX: b"[]"}, "expected a JSON object, found list"),
        ({INDEX: b'{"weight_map": []}'}, "not an index"),
        ({INDEX: b"[" * 100_000}, "nested too deep"),
        ({INDEX: b'{"weight_map": {"a": "model-1.safetensors"}}'}, "model-1.safetensors: no such file, though"),
    ],
)
def test_broken_folder(tmp_path: Path, files: dict[str, bytes], said: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as error:
        HfFiles(tmp_path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_index_that_names_a_tensor_of_no_file(moe: Path, tmp_path: Path) -> None:
    copy(moe, tmp_path).joinpath(SINGLE).rename(tmp_path / "model-1.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"model.extra": "model-1.safetensors"}}))
    with pytest.raises(ValueError, match=r"no tensor 'model.extra'"):
        HfFiles(tmp_path)


def index(folder: Path, **files: dict[str, torch.Tensor]) -> Path:
    """Files by name (without their ending), each tensor indexed where it comes last."""
    for name, tensors in files.items():
        save_file(tensors, folder / f"{name}.safetensors")
    named = {tensor: f"{name}.safetensors" for name, tensors in files.items() for tensor in tensors}
    (folder / INDEX).write_text(json.dumps({"weight_map": named}))
    return folder


@pytest.mark.parametrize("file", ["../elsewhere/a.safetensors", "/etc/passwd", "sub/a.safetensors", "a\nb", 5])
def test_an_index_that_points_outside_the_folder(tmp_path: Path, file: object) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "a.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(ValueError, match=r"index.json: .* is no name of a file beside it") as error:
        HfFiles(tmp_path)
    assert "\n" not in str(error.value)


def test_a_name_that_is_too_long_for_a_file(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "x" * 5000}}))
    with pytest.raises(ValueError, match="no such file, though"):
        HfFiles(tmp_path)


def test_two_models_in_one_folder(tmp_path: Path) -> None:
    index(tmp_path, one={"a": torch.ones(1)})
    save_file({"a": torch.zeros(1)}, tmp_path / SINGLE)  # transformers would take this one
    with pytest.raises(ValueError, match="two models; remove one of them"):
        HfFiles(tmp_path)


def test_a_tensor_in_two_files(tmp_path: Path) -> None:
    index(tmp_path, one={"a": torch.ones(1), "b": torch.ones(1)}, two={"b": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"one.safetensors: 'b' is in two.safetensors too"):
        HfFiles(tmp_path)


def known(folder: Path, model: Path) -> None:
    check_known(HfFiles(folder), Architecture.from_hf(model))


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.bool])
def test_quantized_weights_are_not_taken_as_they_are(moe: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    name = "model.layers.1.self_attn.q_proj.weight"
    quantized = load_file(moe / SINGLE)[name].to(dtype)
    with pytest.raises(ValueError, match=f"'{name}' is {str(dtype)[6:]}: give the unquantized weights"):
        known(copy(moe, tmp_path, **{name: quantized}), moe)


def test_a_tensor_without_a_dimension(moe: Path, tmp_path: Path) -> None:
    files = HfFiles(copy(moe, tmp_path, model__norm__weight=torch.tensor(1.0)))
    assert files.dtype_of("model.norm.weight") == torch.float32
    with pytest.raises(ValueError, match=r"'model.norm.weight' has shape \[\], but"):
        files.copy("model.norm.weight", (48,))


def test_experts_stored_twice_or_too_many(moe: Path, tmp_path: Path) -> None:
    tensors = load_file(stacked(moe, tmp_path) / SINGLE)
    known(tmp_path, moe)
    name = "model.layers.0.mlp.experts.down_proj"
    save_file(tensors | {name: torch.cat([tensors[name], tensors[name][:1]])}, tmp_path / SINGLE)
    with pytest.raises(
        ValueError, match=r"'model.layers.0.mlp.experts.down_proj' has shape \[9, 48, 24\], but .*\[8, "
    ):
        known(tmp_path, moe)
    again = "model.layers.0.mlp.experts.5.down_proj.weight"
    save_file(tensors | {again: tensors[name][5] + 1}, tmp_path / SINGLE)
    with pytest.raises(ValueError, match=f"'{name}' and '{again}' are the same weights"):
        known(tmp_path, moe)


def test_a_tied_model_with_another_head(tiny: Path, tmp_path: Path) -> None:
    source = tiny / "llama_tied"
    embedding = load_file(source / SINGLE)["model.embed_tokens.weight"]
    known(copy(source, tmp_path, lm_head__weight=embedding), source)
    with pytest.raises(ValueError, match=r"'lm_head.weight' is stored and is not the embedding"):
        known(copy(source, tmp_path, lm_head__weight=embedding + 1), source)
