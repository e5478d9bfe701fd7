"""csrc/group_loss.cu, run on a CPU through its shim, against the definition in float64.

Legend: S samples, T response tokens, R samples with their groups.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pivotrl.objective import fused, loss
from pivotrl.objective.config import ObjectiveConfig
from pivotrl.objective.kernels import library
from pivotrl.objective.kernels.group_loss import group_loss
from pivotrl.objective.loss import GroupRewards, ResponseTokens
from tests.objective.fused_cases import check_build, grouped, many_groups, single
from tests.objective.test_loss import CONFIGS, make_batch

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ to build the kernel for the CPU")


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> str:
    return str(library.build_for_cpu(tmp_path_factory.mktemp("csrc") / "group_loss.so"))


def test_it_gives_what_the_definition_gives(built):
    check_build(built)


@pytest.mark.parametrize("mode", ["grpo", "leave_one_out", "mean_only"])
def test_advantages_from_rewards(built, mode):
    batch = single(make_batch())
    config, given = ObjectiveConfig(advantage=mode), many_groups(len(batch.advantages_S))
    found_S, expected_S = run_op(batch, given, config, built), given.advantages(config)
    assert torch.equal(found_S == 0, expected_S.float() == 0)
    torch.testing.assert_close(found_S.double(), expected_S, rtol=1e-6, atol=1e-9)


def run_op(batch: ResponseTokens, rewards: GroupRewards, config: ObjectiveConfig, built: str) -> torch.Tensor:
    samples = torch.arange(len(rewards.index_S) + 1)
    _, _, advantages_S, _ = group_loss(
        batch.logp_T.detach(),
        torch.searchsorted(batch.sample_index_T, samples).int(),
        fused._settings(config, 60.0, True),
        rewards=rewards.rewards_R,
        group_offsets=rewards.group_offsets,
        reward_index=rewards.index_S,
        library=built,
    )
    return advantages_S


def test_equal_inputs_give_equal_bits(built):
    config, batch = CONFIGS[-1], single(make_batch())
    first, second = (fused.policy_loss(config, batch, 60.0, library=built) for _ in range(2))
    assert torch.equal(first.g_T, second.g_T)
    assert torch.equal(first.loss, second.loss)
    assert all(torch.equal(first.metrics[name], second.metrics[name]) for name in first.metrics)


def test_no_sample_and_a_sample_without_tokens(built):
    nothing = ResponseTokens(torch.zeros(0), torch.zeros(0, dtype=torch.int64), torch.zeros(0))
    result = fused.policy_loss(ObjectiveConfig(), nothing, 8.0, library=built)
    assert result.loss.item() == 0
    gap = ResponseTokens(torch.full((3,), -1.0), torch.tensor([0, 2, 2]), torch.tensor([1.0, 5.0, -1.0]))
    for config in (ObjectiveConfig(), ObjectiveConfig(ratio="sequence", aggregation="sequence_mean")):
        expected = loss.policy_loss(config, gap, 8.0)
        actual = fused.policy_loss(config, gap, 8.0, library=built)
        torch.testing.assert_close(actual.g_T, expected.g_T, rtol=1e-6, atol=0)


def test_bad_input_names_the_argument(built):
    rewards = torch.zeros(4, dtype=torch.float64)
    index, offsets = torch.zeros(1, dtype=torch.int32), torch.tensor([0, 2, 4], dtype=torch.int32)
    for wrong, message in (
        ({"rewards_R": rewards.float()}, "rewards_R must be float64"),
        ({"rewards_R": rewards.index_fill(0, torch.tensor([2]), torch.nan)}, "rewards_R must be finite, got nan at 2"),
        ({"group_offsets": torch.tensor([0, 3, 2, 4], dtype=torch.int32)}, r"group_offsets must rise from 0 to 4"),
        ({"group_offsets": torch.tensor([0, 2, 5], dtype=torch.int32)}, r"group_offsets must rise from 0 to 4"),
        ({"group_offsets": offsets.long()}, "group_offsets must be int32"),
        ({"index_S": torch.tensor([4], dtype=torch.int32)}, r"index_S must be in \[0, 4\), got \[4\]"),
    ):
        with pytest.raises(ValueError, match=message):
            GroupRewards(**({"rewards_R": rewards, "group_offsets": offsets, "index_S": index} | wrong))
    batch = ResponseTokens(torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.zeros(1))
    with pytest.raises(ValueError, match="not built for tensors on cpu"):
        fused.policy_loss(ObjectiveConfig(), batch, 1.0)
    with pytest.raises(ValueError, match="logp_T must be float32"):
        fused.policy_loss(ObjectiveConfig(), replace(batch, logp_T=torch.zeros(1).double()), 1.0, library=built)
    with pytest.raises(ValueError, match="needs reference_logp_T"):
        fused.policy_loss(ObjectiveConfig(beta=1.0), batch, 1.0, library=built)
    two = ResponseTokens(torch.zeros(2), torch.tensor([1, 0]), torch.zeros(2))
    with pytest.raises(ValueError, match="sample_index_T must not fall"):
        fused.policy_loss(ObjectiveConfig(), two, 1.0, library=built)
    one = grouped([2], [0.0, 1.0], [0, 1])
    with pytest.raises(ValueError, match="index_S must name 1 samples, got 2"):
        fused.policy_loss(ObjectiveConfig(), batch, 1.0, one, library=built)
    rewards = {"rewards": one.rewards_R, "group_offsets": one.group_offsets, "reward_index": one.index_S}
    for missing, from_rewards, there in (
        ("advantages", False, rewards),
        ("group_offsets", True, {"rewards": rewards["rewards"]}),
    ):
        with pytest.raises(ValueError, match=f"{missing} must be given"):
            group_loss(
                torch.zeros(2),
                torch.tensor([0, 1, 2], dtype=torch.int32),
                fused._settings(ObjectiveConfig(), 1.0, from_rewards),
                library=built,
                **there,
            )
    given = {"logp": torch.zeros(3), "token_offsets": torch.tensor([0, 3], dtype=torch.int32), "library": built}
    settings = fused._settings(ObjectiveConfig(), 1.0, False)
    for name, wrong, message in (
        ("old_logp", torch.zeros(2), r"old_logp must be \[3\], got \[2\]"),
        ("mask", torch.zeros(3), r"mask must be torch.bool on cpu, got torch.float32"),
        ("token_offsets", torch.tensor([0, 2], dtype=torch.int32), r"token_offsets must rise from 0 to 3, the tokens"),
        ("token_offsets", torch.tensor([1, 3], dtype=torch.int32), r"token_offsets must rise from 0 to 3, the tokens"),
        (
            "token_offsets",
            torch.tensor([0, 4, 3], dtype=torch.int32),
            r"token_offsets must rise from 0 to 3, the tokens",
        ),
        ("advantages", torch.zeros(1, 1), r"advantages must be \[1\], got \[1, 1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            group_loss(settings=settings, **(given | {name: wrong}))
    many = GroupRewards(torch.zeros(1025, dtype=torch.float64), torch.tensor([0, 1025], dtype=torch.int32), index)
    with pytest.raises(ValueError, match="a group has 1025 samples, more than 1024"):
        fused.policy_loss(ObjectiveConfig(), batch, 1.0, many, library=built)


def test_it_has_no_second_derivative(built):
    logp_T, scale = torch.full((2,), -1.0, requires_grad=True), torch.ones((), requires_grad=True)
    batch = ResponseTokens(logp_T, torch.tensor([0, 1]), torch.ones(2), old_logp_T=torch.full((2,), -1.1))
    loss = fused.policy_loss(ObjectiveConfig(), batch, 2.0, library=built).loss
    (gradient_T,) = torch.autograd.grad(scale * loss, logp_T, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient_T.sum().backward()


def test_the_kernel_is_launched_on_the_device_of_its_tensors(built, monkeypatch):
    """Else a process whose current GPU is another one gets CUDA's error for a stream of the wrong device."""
    entered, original = [], torch.cuda.device_of
    monkeypatch.setattr(torch.cuda, "device_of", lambda tensor: entered.append(tensor) or original(tensor))
    batch = single(make_batch())
    fused.policy_loss(ObjectiveConfig(), batch, 60.0, library=built)
    assert [tensor.shape for tensor in entered] == [batch.logp_T.shape]


def test_the_arguments_lie_where_the_kernel_reads_them(tmp_path):
    """Every field's offset and size, the order of the totals and the numbers of the modes, as a compiler has them."""
    names = [name for name, _ in library.Arguments._fields_]
    totals = ["kLoss", "kTokens", "kSampled", "kRatio", "kClipLow", "kClipHigh", "kDualClip", "kKlOld", "kKlReference"]
    totals += ["kEntropy", "kSamplerGap", "kSamplerError", "kWeight", "kWeightAtBound", "kNumTotals"]
    modes = {"kGiven": 0, "kGrpo": fused._MODES["grpo"], "kLeaveOneOut": fused._MODES["leave_one_out"]}
    modes |= {"kMeanOnly": fused._MODES["mean_only"], **{f"kK{name[1]}": number for name, number in fused._KLS.items()}}
    modes |= {
        f"k{name}": fused._IMPORTANCES[key]
        for name, key in (("NoWeight", "none"), ("Truncate", "truncate"), ("Mask", "mask"))
    }
    asked = [
        f"{what}(PivotrlGroupLoss{joint}{name})"
        for name in names
        for what, joint in (("offsetof", ", "), ("sizeof", "::"))
    ]
    asked += ["sizeof(PivotrlGroupLoss)", *totals, *modes]
    source, program = tmp_path / "layout.cpp", tmp_path / "layout"
    source.write_text(
        '#include <cstddef>\n#include <cstdio>\n#include "group_loss.h"\nint main() {\n'
        + "".join(f'std::printf("%d\\n", static_cast<int>({question}));\n' for question in asked)
        + "}\n",
        encoding="ascii",
    )
    library.run_compiler(["g++", "-std=c++17", f"-I{library.SOURCE.parent}", "-o", str(program), str(source)])
    said = subprocess.run([str(program)], capture_output=True, text=True, timeout=60).stdout
    fields = [getattr(library.Arguments, name) for name in names]
    expected = [number for field in fields for number in (field.offset, field.size)]
    expected += [ctypes.sizeof(library.Arguments), *range(len(library.TOTALS) + 1), *modes.values()]
    assert dict(zip(asked, map(int, said.split()), strict=True)) == dict(zip(asked, expected, strict=True))


def test_the_operator_has_a_fake(built):
    batch = single(make_batch())
    offsets = torch.searchsorted(batch.sample_index_T, torch.arange(len(batch.advantages_S) + 1)).int()
    settings, logp_T = fused._settings(ObjectiveConfig(), 60.0, False), batch.logp_T.detach()
    with torch._subclasses.FakeTensorMode() as mode:
        shapes = group_loss(mode.from_tensor(logp_T), mode.from_tensor(offsets), settings)
    real = group_loss(logp_T, offsets, settings, advantages=batch.advantages_S, library=built)
    assert [(x.shape, x.dtype) for x in shapes] == [(x.shape, x.dtype) for x in real]


def test_the_sanitizers_find_nothing(tmp_path):
    """AddressSanitizer and UBSan, over every branch: they must be in the process before Python is."""
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    sanitized = library.build_for_cpu(tmp_path / "sanitized.so", *flags)
    runtimes = [
        library.run_compiler(["g++", f"-print-file-name={name}.so"]).strip() for name in ("libasan", "libubsan")
    ]
    if not all(Path(runtime).is_absolute() for runtime in runtimes):
        pytest.skip("g++ comes without the sanitizers' libraries")
    options = "detect_leaks=0"  # Python's own
    environment = os.environ | {"LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": options, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.objective.fused_sanitized", str(sanitized)]
    repository = Path(__file__).parents[2]
    result = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "nothing found" in result.stdout


def test_without_a_compiler_the_set_up_goes_on_and_a_build_fails(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert library.main(["--optional"]) == 0
    assert "runs by its definition\nnvcc is not on PATH" in capsys.readouterr().err
    assert library.main([]) == 1


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_it_compiles_for_every_architecture_and_spills_nothing(tmp_path):
    known = library.run_compiler(["nvcc", "--list-gpu-code"]).split()
    for architecture in (code for code in library.ARCHITECTURES if f"sm_{code}" in known):
        said = library.compile_report(architecture, tmp_path / "group_loss.cubin")
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in said
    assert Path(library.build(tmp_path / "group_loss.so")).stat().st_size > 0
