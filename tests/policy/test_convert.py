"""The command convert_hf: round trips across layouts, and exit codes that can be trusted."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pivotrl.policy import checkpoint_checksums, checkpoint_files, convert, convert_verify
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.dist_read import DistFiles
from pivotrl.policy.hf_files import SINGLE, HfFiles, in_memory_name
from pivotrl.policy.local_ranks import run_ranks
from pivotrl.policy.mapping import all_tensors
from tests.launch import REPOSITORY
from tests.policy.commands_worker import MUTATIONS
from tests.policy.test_hf_files import stacked
from tests.policy.tiny import edit_config

COMMAND = REPOSITORY / "tools" / "convert_hf.py"
VICTIM = "model.layers.1.mlp.experts.6.up_proj.weight"
STREAMED = [
    "to-megatron --hf {tiny}/moe_bf16 --out {megatron} --shard-gib 0.00002",
    "to-hf --checkpoint {megatron} --out {hf}",
    "to-megatron --hf {tiny}/odd_mixtral --out {mixtral}",
    "to-hf --checkpoint {mixtral} --out {mixtral_hf}",
    "to-megatron --hf {stacked} --out {from_stacked}",
    "verify --hf {tiny}/moe --checkpoint {from_stacked}",
    "verify --hf {stacked} --checkpoint {from_stacked}",
    "verify --hf {mixtral_memory} --weights-only",
    "verify --hf {tiny}/moe --against {stacked}",
    "verify --hf {tiny}/moe_bf16 --checkpoint {megatron}",
    "verify --hf {one_value} --checkpoint {megatron}",
    "verify --hf {wider} --checkpoint {megatron}",
    "verify --hf {without} --checkpoint {megatron}",
    "verify --hf {tiny}/moe_bf16 --against {one_value}",
    "verify --hf {tiny}/moe_bf16 --against {without}",
    "verify --hf {tiny}/moe_bf16 --against {trained}",
]
"""Commands on files alone, one after another."""
DIFFERENT = {
    "{one_value}": "1 of 1152 values differ",
    "{wider} --checkpoint": "compared in float32: none differ\n",
    "--hf {without}": "but not in",
    "--against {without}": "not in",
}
"""What a command says of VICTIM, by a part of it; the others find nothing."""


def run(*arguments: object, timeout: float = 400) -> subprocess.CompletedProcess:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def folders(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tied model with a stored head of its own, models with one value or tensor other, and room for conversions."""
    folder = tmp_path_factory.mktemp("convert")
    wrong_head = folder / "wrong_head"
    shutil.copytree(tiny / "llama_tied", wrong_head, ignore=shutil.ignore_patterns("checkpoint"))
    tensors = load_file(wrong_head / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1
    save_file(tensors, wrong_head / "model.safetensors")
    tensors = load_file(tiny / "moe_bf16" / "model.safetensors")
    one_value = {name: tensor.clone() for name, tensor in tensors.items()}
    one_value[VICTIM][3, 5] += 1
    without = {name: tensor for name, tensor in tensors.items() if name != VICTIM}
    wider = tensors | {VICTIM: tensors[VICTIM].float()}
    trained = {name: tensor.float() + 1e-9 * name.endswith("up_proj.weight") for name, tensor in tensors.items()}
    several = {"one_value": one_value, "without": without, "wider": wider, "trained": trained}
    for name, changed in several.items():
        (folder / name).mkdir()
        shutil.copy(tiny / "moe_bf16" / "config.json", folder / name)
        save_file(changed, folder / name / "model.safetensors")
    made = {name: folder / name for name in ("wrong_head", *several)}
    return made | {
        name: folder / name
        for name in ("megatron", "hf", "mixtral", "mixtral_hf", "mixtral_memory", "stacked", "from_stacked")
    }


@pytest.fixture(scope="module")
def one_process(tiny: Path, folders: dict[str, Path]) -> list[tuple[int, str]]:
    """Exit code and stderr of: verify under each mutation; verify of the wrong head; STREAMED."""
    verify = ["verify", "--hf", str(tiny / "dense")]
    steps = [[mutation, verify] for mutation in MUTATIONS]
    steps.append(["none", ["verify", "--hf", str(folders["wrong_head"]), "--weights-only"]])
    folders["stacked"].mkdir()
    stacked(tiny / "moe", folders["stacked"])
    shutil.copy(tiny / "moe" / "config.json", folders["stacked"])
    folders["mixtral_memory"].mkdir()
    shutil.copy(tiny / "odd_mixtral" / "config.json", folders["mixtral_memory"])
    named = load_file(tiny / "odd_mixtral" / SINGLE).items()
    save_file({in_memory_name(name): tensor for name, tensor in named}, folders["mixtral_memory"] / SINGLE)
    known = {"tiny": tiny, **folders}
    steps += [["none", [word.format(**known) for word in line.split()]] for line in STREAMED]
    done = run("-m", "tests.policy.commands_worker", json.dumps(steps))
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return [tuple(json.loads(line)) for line in lines]


def test_verify_passes_on_the_true_map_and_fails_on_every_broken_one(one_process: list[tuple[int, str]]) -> None:
    assert one_process[0] == (0, "")
    for mutation, (code, said) in zip(list(MUTATIONS)[1:], one_process[1:]):
        assert code == 1, mutation
        if mutation == "gate and up swapped on the way out":
            assert "model.layers.1.mlp.gate_proj.weight: 3840 of 3840 values came back changed" in said
        else:
            assert said.startswith("convert_hf verify: logits: they differ"), "broken both ways alike"


def test_a_stored_head_that_some_would_ignore_is_refused(one_process: list[tuple[int, str]]) -> None:
    code, said = one_process[len(MUTATIONS)]
    assert code == 2
    assert "wrong_head: 'lm_head.weight' is stored and is not the embedding" in said


@pytest.mark.parametrize("line", range(len(STREAMED)), ids=lambda line: STREAMED[line].replace(" ", "_"))
def test_streamed(one_process: list[tuple[int, str]], line: int) -> None:
    code, said = one_process[len(MUTATIONS) + 1 + line]
    if "{trained}" in STREAMED[line]:
        return  # the next test
    expected = next((problem for found, problem in DIFFERENT.items() if found in STREAMED[line]), None)
    if expected is None:
        assert (code, said) == (0, "")
    else:
        assert code == 1 and said.startswith(f"convert_hf verify: {VICTIM}: ") and expected in said


def test_two_types_are_one_line_and_the_values_are_compared(
    tiny: Path, folders: dict[str, Path], one_process: list[tuple[int, str]]
) -> None:
    """As a trained checkpoint against its base: here one kind of tensor moved, by less than bf16 shows."""
    code, said = one_process[-1]
    assert code == 1
    first, *names, last = (line.removeprefix("convert_hf verify: ") for line in said.splitlines())
    tensors = load_file(tiny / "moe_bf16" / SINGLE)
    moved = sum(name.endswith("up_proj.weight") for name in tensors)
    both = f"float32 in {folders['trained']}, bfloat16 in {tiny / 'moe_bf16'}; compared in float32"
    assert first == f"{len(tensors)} of {len(tensors)} tensors: {both}: {moved} differ"
    assert len(names) == 5 and all(re.search(r"up_proj.weight: \d+ of 1152 values differ", name) for name in names)
    assert last == f"and {moved - 5} more"


def test_through_a_checkpoint_and_back_every_byte_is_the_same(
    tiny: Path, folders: dict[str, Path], one_process: list[tuple[int, str]]
) -> None:
    for source, back in ((tiny / "moe_bf16", folders["hf"]), (tiny / "odd_mixtral", folders["mixtral_hf"])):
        assert (back / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
        assert json.loads((back / "config.json").read_text()) == json.loads((source / "config.json").read_text())
    assert len(list(folders["megatron"].glob("*.distcp"))) > 3


def test_a_checkpoint_with_a_flipped_bit_is_refused(
    folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folders["megatron"], broken)
    file = sorted(broken.glob("*.distcp"))[1]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{file} is damaged: .*SHA-256.*; put back .*, or give another checkpoint"):
        DistFiles(broken, Architecture.from_hf(broken / "hf"))


def test_a_truncated_file_is_named_without_checksums_too(
    folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folders["megatron"], broken)
    (broken / "checksums.json").unlink()
    file = sorted(broken.glob("*.distcp"))[1]
    file.write_bytes(file.read_bytes()[:-3000])
    with pytest.raises(ValueError) as error:
        list(DistFiles(broken, Architecture.from_hf(broken / "hf")).tensors())
    assert str(error.value).startswith(f"{file}: decoder.layers.") and "\n" not in str(error.value)


def test_another_model_than_the_checkpoint_s_is_named(
    tiny: Path, folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"has no decoder.layers.mlp.linear_fc1.layer_norm_weight, which Qwen3For"):
        DistFiles(folders["megatron"], Architecture.from_hf(tiny / "dense"))
    shutil.copy(tiny / "moe" / "config.json", tmp_path)
    edit_config(tmp_path, vocab_size=97)
    with pytest.raises(ValueError, match=r"embedding.word_embeddings.weight has shape \[96, 48\], but .* \[97, 48\]"):
        DistFiles(folders["megatron"], Architecture.from_hf(tmp_path))
    edit_config(tmp_path, vocab_size=95)
    with pytest.raises(ValueError, match=r"embeddings.weight has 96 rows, none of them padding, but .* makes it 95"):
        list(DistFiles(folders["megatron"], Architecture.from_hf(tmp_path)).tensors())


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"tie_word_embeddings": True}, "output_layer.weight"),
        ({"architectures": ["MixtralForCausalLM"]}, "decoder.layers.self_attention.k_layernorm.weight"),
    ],
)
def test_weights_that_the_config_has_no_place_for_are_not_dropped(
    tiny: Path, folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path, changes: dict, lost: str
) -> None:
    """The sizes are the same, so nothing else would show it."""
    shutil.copy(tiny / "moe" / "config.json", tmp_path)
    edit_config(tmp_path, intermediate_size=24, num_local_experts=8, **changes)
    with pytest.raises(ValueError, match=f"the checkpoint has {lost}, which"):
        DistFiles(folders["megatron"], Architecture.from_hf(tmp_path))


def test_a_config_of_another_model_than_lies_in_the_checkpoint(
    tiny: Path, folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    shutil.copytree(tiny / "moe_bf16", tmp_path / "other", ignore=shutil.ignore_patterns("checkpoint"))
    edit_config(tmp_path / "other", rope_parameters={"rope_theta": 77.0})
    with pytest.raises(ValueError, match=r"--hf .*other: .* rope_theta is 77.0, not 500.0"):
        convert.to_hf(folders["megatron"], tmp_path / "out", 1 << 30, tmp_path / "other")
    (problem,) = convert_verify.verify_checkpoint(folders["megatron"], tmp_path / "other")
    assert "rope_theta is 77.0, not 500.0" in problem


def test_the_config_in_a_checkpoint_has_a_checksum_too(
    folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    shutil.copytree(folders["megatron"], tmp_path / "broken")
    edit_config(tmp_path / "broken" / "hf", rope_parameters={"rope_theta": 77.0})
    with pytest.raises(ValueError, match=r"hf/config.json is damaged: .*\(\d+ bytes found"):
        convert.to_hf(tmp_path / "broken", tmp_path / "out", 1 << 30)


def test_weights_that_the_checksums_leave_out_are_refused(
    folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    shutil.copytree(folders["megatron"], tmp_path / "broken")
    (tmp_path / "broken" / "checksums.json").unlink()
    checkpoint_checksums.write_manifest(tmp_path / "broken", {})
    with pytest.raises(ValueError, match=r"distcp: checksums.json does not have it; put back"):
        convert.to_hf(tmp_path / "broken", tmp_path / "out", 1 << 30)


def test_a_difference_in_the_sign_of_zero_is_counted() -> None:
    zeros = torch.zeros(2, 3, dtype=torch.bfloat16)
    other = zeros.clone()
    other[1, 2] = -0.0
    said = convert_verify.difference("w", zeros, Path("a"), other, Path("b"))
    assert said == "w: 1 of 6 values differ between a and b"


@pytest.mark.slow
def test_converting_holds_two_tensors_and_one_output_file_at_most(tmp_path: Path) -> None:
    """Each command alone, on a model of 16 times that, with no tensor under a kilobyte that counts."""
    config = {"architectures": ["LlamaForCausalLM"], "hidden_size": 512, "intermediate_size": 2048}
    config |= {"num_hidden_layers": 40, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 8192}
    hf, checkpoint, back = tmp_path / "hf", tmp_path / "checkpoint", tmp_path / "back"
    hf.mkdir()
    (hf / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 128}))
    shapes = {name: tensor.shape for name, tensor in all_tensors(Architecture.from_hf(hf)).items()}
    save_file(
        {name: torch.full(shape, number + 1.0) for number, (name, shape) in enumerate(shapes.items())}, hf / SINGLE
    )
    shard_mib, largest_mib = 16, 8192 * 512 * 4 / 2**20
    bound = 2 * largest_mib + shard_mib
    assert (hf / SINGLE).stat().st_size / 2**20 > 12 * bound
    size = ("--shard-gib", shard_mib / 1024)
    for arguments in (
        ("to-megatron", "--hf", hf, "--out", checkpoint),
        ("to-hf", "--checkpoint", checkpoint, "--out", back),
    ):
        done = run(COMMAND, *arguments, *size)
        assert done.returncode == 0, done.stderr[-4000:]
        peak = re.fullmatch(r"peak memory: ([\d.]+) MiB above .*", done.stdout.splitlines()[-1])
        assert peak, done.stdout
        assert float(peak[1]) <= bound, done.stdout
    files, whole = HfFiles(back), HfFiles(hf)
    assert all(torch.equal(files.whole(name), whole.whole(name)) for name in shapes)


def test_a_checkpoint_that_lost_a_file_is_answered_with_its_name(
    folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folders["megatron"], broken)
    lost = sorted(broken.glob("*.distcp"))[0]
    lost.unlink()
    with pytest.raises(ValueError, match=f"{lost}: no such file"):
        checkpoint_files.load({}, broken)
    (broken / ".metadata").write_bytes(b"what")
    with pytest.raises(ValueError, match="not a table of contents"):
        checkpoint_files.load({}, broken)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04junk", b"\x80\x02K\x05."])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("name", ["common.pt", "metadata.json", ".metadata"])
def test_a_damaged_file_of_a_checkpoint_is_named(
    folders: dict[str, Path], one_process: list[tuple[int, str]], tmp_path: Path, name: str, content: bytes
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folders["megatron"], broken)
    (broken / name).write_bytes(content)
    with pytest.raises(ValueError) as error:
        checkpoint_files.load({}, broken)
    assert str(error.value).startswith(f"{broken / name}: not ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["{}", "[]", "{", '{"config": []}', '{"config": {"model": {"path": 5}}}'])
def test_a_damaged_run_json_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError) as error:
        convert.side_files_of(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / 'run.json'}: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "--hf", "nowhere"], "nowhere/config.json: no such file"),
        (["verify", "--hf", "{tiny}/moe", "--tensor", "3"], "verify: --tensor is 3, which does not divide"),
        (["verify", "--hf", "{tiny}/moe", "--tensor", "0"], "--tensor is 0"),
        (["verify", "--hf", "{tiny}/dense", "--expert", "2"], "Qwen3ForCausalLM has no experts"),
        (["to-hf", "--checkpoint", "nowhere", "--out", "unused"], "nowhere: no such folder"),
        (["to-hf", "--checkpoint", "{tiny}", "--out", "{tiny}/moe"], "is not an empty folder"),
        (["to-hf", "--checkpoint", "{tiny}", "--out", "unused"], "add --hf FOLDER"),
        (["to-hf", "--checkpoint", "{tiny}", "--out", "unused", "--shard-gib", "0"], "--shard-gib is 0.0"),
        (["to-hf", "--checkpoint", "{tiny}", "--out", "unused", "--shard-gib", "inf"], "--shard-gib is inf"),
        (["map", "--hf", "{tiny}/moe", "--world", "0"], "--world is 0"),
        (["verify", "--hf", "{tiny}/moe", "--against", "{tiny}/moe", "--tensor", "2"], "leave the layout's options"),
        (["verify", "--hf", "{tiny}/moe", "--checkpoint", "nowhere"], "nowhere: no such folder"),
        (["map", "--hf", "{tiny}/moe", "--world", "6", "--tensor", "4"], "map: --tensor is 4, which does not"),
        (
            ["map", "--hf", "{tiny}/moe", "--world", "3", "--expert-tensor", "2"],
            "--expert-tensor 2 x --expert 1 x --pip",
        ),
        (["map", "--hf", "{tiny}/moe", "--world", "3", "--tensor", "2"], "3 are given: give as many (--world 2)"),
        (["to-megatron", "--hf", "{tiny}/moe", "--out", "{tiny}/moe/config.json/x"], "config.json is a file"),
    ],
)
def test_mistakes_get_one_line_and_code_2(
    tiny: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture
) -> None:
    spec = importlib.util.spec_from_file_location("convert_hf", COMMAND)
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    assert command.main([argument.format(tiny=tiny) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_rank_that_fails_ends_the_others_and_is_heard(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    sys.exit(print('rank 1 of', os.environ['WORLD_SIZE'], 'is unhappy', file=sys.stderr) or 7)\n"
        "time.sleep(60)\n"
    )
    assert run_ranks(3, [str(script)]) == 7
    assert capfd.readouterr().err == "rank 1 of 3 is unhappy\n"


def test_help_needs_nothing_heavy() -> None:
    listing = "import runpy, sys; sys.argv = ['convert_hf.py', '--help']\n"
    listing += f"try: runpy.run_path({str(COMMAND)!r}, run_name='__main__')\n"
    listing += "finally: print('HEAVY', [m for m in ('torch', 'megatron', 'transformers') if m in sys.modules])"
    assert "HEAVY []" in run("-c", listing).stdout
