"""The command convert_hf: round trips across layouts, and exit codes that can be trusted."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from pivotrl.policy import checkpoint_files, convert
from pivotrl.policy.local_ranks import run_ranks
from tests.launch import REPOSITORY
from tests.policy.commands_worker import MUTATIONS

COMMAND = REPOSITORY / "tools" / "convert_hf.py"


def run(*arguments: object, timeout: float = 180) -> subprocess.CompletedProcess:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def folders(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tied model with a stored head of its own, and room for conversions."""
    folder = tmp_path_factory.mktemp("convert")
    wrong_head = folder / "wrong_head"
    shutil.copytree(tiny / "llama_tied", wrong_head, ignore=shutil.ignore_patterns("checkpoint"))
    tensors = load_file(wrong_head / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"] + 1
    save_file(tensors, wrong_head / "model.safetensors")
    return {"wrong_head": wrong_head, "megatron": folder / "megatron", "hf": folder / "hf"}


@pytest.fixture(scope="module")
def one_process(tiny: Path, folders: dict[str, Path]) -> list[tuple[int, str]]:
    """Exit code and stderr of: verify under each mutation; verify of the wrong head; to-megatron."""
    verify = ["verify", "--hf", str(tiny / "dense")]
    steps = [[mutation, verify] for mutation in MUTATIONS]
    steps.append(["none", ["verify", "--hf", str(folders["wrong_head"]), "--weights-only"]])
    steps.append(["none", ["to-megatron", "--hf", str(tiny / "moe_bf16"), "--out", str(folders["megatron"])]])
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


def test_verify_finds_a_stored_head_that_the_model_would_ignore(one_process: list[tuple[int, str]]) -> None:
    code, said = one_process[-2]
    assert code == 1
    assert said.startswith("convert_hf verify: lm_head.weight: stored and different")


@pytest.mark.slow
def test_through_a_checkpoint_and_back_every_byte_is_the_same(
    tiny: Path, folders: dict[str, Path], one_process: list[tuple[int, str]]
) -> None:
    """One rank writes the checkpoint, two ranks (tensor 2, expert 2) read it and write the folder."""
    assert one_process[-1] == (0, "")
    source, back = tiny / "moe_bf16", folders["hf"]
    layout = ("--tensor", 2, "--expert", 2)
    done = run(COMMAND, "to-hf", "--checkpoint", folders["megatron"], "--out", back, *layout)
    assert done.returncode == 0, done.stderr[-4000:]
    assert (back / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()
    assert json.loads((back / "config.json").read_text()) == json.loads((source / "config.json").read_text())


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


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=f"--out .*: {tmp_path / 'file'} is a file"):
        convert.refuse_used(tmp_path / "file" / "a" / "b")
    with pytest.raises(ValueError, match="File name too long"):
        convert.refuse_used(tmp_path / ("x" * 300))
    convert.refuse_used(tmp_path / "new" / "folder")
    monkeypatch.setattr("os.access", lambda *_: False)  # the tests may run as root, who may write everywhere
    with pytest.raises(ValueError, match=f"{tmp_path} may not be written"):
        convert.refuse_used(tmp_path / "new" / "folder")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"--out .*: cannot make .* \(Not a directory\)"):
        convert._start(tmp_path / "file" / "out", 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "--hf", "nowhere"], "nowhere/config.json: no such file"),
        (["verify", "--hf", "{tiny}/moe", "--tensor", "3"], "parallel.tensor is 3, which does not divide"),
        (["verify", "--hf", "{tiny}/moe", "--tensor", "0"], "--tensor is 0"),
        (["verify", "--hf", "{tiny}/dense", "--expert", "2"], "Qwen3ForCausalLM has no experts"),
        (["to-hf", "--checkpoint", "nowhere", "--out", "unused"], "nowhere: no such folder"),
        (["to-hf", "--checkpoint", "{tiny}", "--out", "{tiny}/moe"], "is not an empty folder"),
        (["to-hf", "--checkpoint", "{tiny}", "--out", "unused"], "add --hf FOLDER"),
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
