"""Convert between Hugging Face folders and Megatron checkpoints, and prove that nothing is lost on the way.

  python tools/convert_hf.py to-megatron --hf FOLDER --out CHECKPOINT
  python tools/convert_hf.py to-hf --checkpoint CHECKPOINT --out FOLDER
  python tools/convert_hf.py verify --hf FOLDER --tensor 2 --expert 2      on live models of that layout
  python tools/convert_hf.py verify --hf FOLDER --checkpoint CHECKPOINT    tensor by tensor
  python tools/convert_hf.py verify --hf FOLDER --against FOLDER           tensor by tensor
  python tools/convert_hf.py map --hf FOLDER --world 64 --tensor 4 --pipeline 2 --expert 8    needs config.json only

A checkpoint is of no layout: any reads what any other wrote. Converting holds one tensor in memory, and `to-hf` one
output file besides; the last line says the peak.

`verify` on a layout proves the map between the two formats and the round trip, on the weights as they are. It cannot
tell whether those weights were damaged before: a Hugging Face folder has no checksums. A checkpoint has.

A layout of more than one rank is started on this machine by the command itself, unless torchrun or srun has done it.
Exit code: 0; 1 where `verify` or `map` found a difference; 2 for a mistake in the arguments or the files.
"""

import argparse
import contextlib
import importlib
import math
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import with_packages

VERIFY = "round trip of every byte, and logits against transformers"
LARGEST_GIB = 1 << 20
LIMIT = "It checks the map between the formats; a folder whose weights were damaged before passes as long as it loads."
TRAINED = (
    "--checkpoint with a trained checkpoint and the folder that the run began from shows what training changed: a line "
    "for the types where they differ (a run in bfloat16 keeps its weights in float32; the values are then compared in "
    "float32), how many tensors have other values, and the first of these. Exit code 1 says there that it trained, "
    "not that anything is damaged. Of a checkpoint that to-megatron has just written nothing may differ."
)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    layout = argparse.ArgumentParser(add_help=False)
    group = layout.add_argument_group("parallel layout")
    for name, what in (
        ("tensor", "tensor-parallel size"),
        ("pipeline", "pipeline stages"),
        ("expert", "expert-parallel size"),
        ("expert-tensor", "tensor-parallel size inside an expert"),
    ):
        group.add_argument(f"--{name}", type=int, default=1, metavar="N", help=f"{what} (default 1)")
    size = argparse.ArgumentParser(add_help=False)
    size.add_argument("--shard-gib", type=float, default=4.0, metavar="X", help="size of one output file (default 4)")
    one = commands.add_parser("to-megatron", parents=[size], help="Hugging Face folder -> Megatron checkpoint")
    one.add_argument("--hf", type=Path, required=True, help="folder with config.json and safetensors")
    one.add_argument("--out", type=Path, required=True, help="folder to write, new or empty")
    two = commands.add_parser("to-hf", parents=[size], help="Megatron checkpoint -> Hugging Face folder")
    two.add_argument("--checkpoint", type=Path, required=True, help="of to-megatron, or step_NNNNNN of a training run")
    two.add_argument("--out", type=Path, required=True, help="folder to write, new or empty")
    two.add_argument("--hf", type=Path, help="folder with config and tokenizer, where the checkpoint names none")
    three = commands.add_parser("verify", parents=[layout], help=VERIFY, description=f"{VERIFY}. {LIMIT} {TRAINED}")
    three.add_argument("--hf", type=Path, required=True, help="folder with config.json and safetensors")
    three.add_argument("--weights-only", action="store_true", help="no logits: for a model too large for one process")
    other = three.add_mutually_exclusive_group()
    other.add_argument("--checkpoint", type=Path, help="compare with this checkpoint's weights instead")
    other.add_argument("--against", type=Path, metavar="FOLDER", help="compare with this folder's weights instead")
    four = commands.add_parser(
        "map", parents=[layout], help="every tensor is held by the ranks that should: no weights"
    )
    four.add_argument("--hf", type=Path, required=True, help="folder with config.json")
    four.add_argument("--world", type=int, required=True, metavar="N", help="ranks in all")
    return parser.parse_args(argv)


def layout_of(arguments: argparse.Namespace) -> Any:
    from pydantic import ValidationError

    from pivotrl.policy.config import ParallelConfig

    try:
        return ParallelConfig(
            tensor=arguments.tensor,
            pipeline=arguments.pipeline,
            expert=arguments.expert,
            expert_tensor=arguments.expert_tensor,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"--{str(first['loc'][0]).replace('_', '-')} is {first['input']}: {first['msg']}") from None


def check_flags(layout: Any, arch: Any, ranks: int, world_option: bool) -> None:
    """As `parallel.check_layout`, with this command's options for the configuration's keys in what it says."""
    from pivotrl.policy import parallel

    try:
        parallel.check_layout(layout, arch, ranks)
    except ValueError as error:
        said = re.sub(r"parallel\.(\w+)", lambda key: f"--{key[1].replace('_', '-')}", str(error))
        if world_option:
            said = said.replace("--ranks", "--world").replace("were started: start", "are given: give")
        raise ValueError(re.sub(r" \(--ranks \d+\)", "", said)) from None


def convert(arguments: argparse.Namespace) -> int:
    from pivotrl.policy import convert

    if not 0 < arguments.shard_gib <= LARGEST_GIB:
        raise ValueError(f"--shard-gib is {arguments.shard_gib}: write a size above 0, and at most {LARGEST_GIB}")
    convert.refuse_used(arguments.out)
    max_bytes = max(1, int(arguments.shard_gib * (1 << 30)))
    peak = PeakMemory()
    if arguments.command == "to-megatron":
        convert.to_megatron(arguments.hf, arguments.out, max_bytes)
    else:
        convert.to_hf(arguments.checkpoint, arguments.out, max_bytes, arguments.hf)
    print(peak)
    return 0


def verify(arguments: argparse.Namespace, argv: list[str]) -> int:
    layout = layout_of(arguments)

    from pivotrl.policy import convert_verify
    from pivotrl.policy.architecture import Architecture

    ranks = layout.pipeline * math.lcm(layout.tensor, layout.expert * layout.expert_tensor)
    if (arguments.checkpoint or arguments.against) and (ranks > 1 or arguments.weights_only):
        raise ValueError("--checkpoint and --against compare files, on no layout: leave the layout's options out")
    arch = Architecture.from_hf(arguments.hf)
    if arguments.checkpoint:
        problems = convert_verify.verify_checkpoint(arguments.checkpoint, arguments.hf)
    elif arguments.against:
        problems = convert_verify.verify_folders(arguments.hf, arguments.against)
    else:
        check_flags(layout, arch, int(os.environ.get("WORLD_SIZE", ranks)), world_option=False)
        if ranks > 1 and "RANK" not in os.environ:
            from pivotrl.policy.local_ranks import run_ranks

            return run_ranks(ranks, [__file__, *argv])
        problems = convert_verify.verify(arguments.hf, layout, arguments.weights_only)
    for problem in problems:
        print(f"convert_hf verify: {problem}", file=sys.stderr)
    if int(os.environ.get("RANK", "0")) == 0 and not problems:
        print(f"{arguments.hf}: verified")
    return 1 if problems else 0


def check_map(arguments: argparse.Namespace) -> int:
    layout = layout_of(arguments)

    from pivotrl.policy import map_check
    from pivotrl.policy.architecture import Architecture

    if arguments.world < 1:
        raise ValueError(f"--world is {arguments.world}: write 1 or more")
    arch = Architecture.from_hf(arguments.hf)
    check_flags(layout, arch, arguments.world, world_option=True)
    report = map_check.check_map(arch, layout, arguments.world)
    for problem in report.problems:
        print(f"convert_hf map: {problem}", file=sys.stderr)
    print(report)
    return 1 if report.problems else 0


class PeakMemory:
    """The most memory that was resident since it was made, mapped files included, above what was then (Linux)."""

    def __init__(self) -> None:
        # What the work needs first: its import is not the work's memory.
        from pivotrl.policy import device

        device.prepare()
        importlib.import_module("pivotrl.policy.dist_read")
        importlib.import_module("pivotrl.policy.dist_write")
        importlib.import_module("megatron.core.dist_checkpointing.core")
        with contextlib.suppress(OSError):  # where the kernel lets no process do it, the imports' own peak counts too
            Path("/proc/self/clear_refs").write_text("5")
        self.before = self._read("VmRSS")

    def __str__(self) -> str:
        mib = (self._read("VmHWM") - self.before) / 1024
        return f"peak memory: {mib:.1f} MiB above the {self.before / 1024:.0f} MiB of the loaded packages"

    @staticmethod
    def _read(key: str) -> int:
        """In KiB."""
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    warnings.filterwarnings("ignore")
    name = f"convert_hf {arguments.command}"

    def work() -> int:
        try:
            if arguments.command == "map":
                return check_map(arguments)
            return verify(arguments, argv) if arguments.command == "verify" else convert(arguments)
        except ValueError as mistake:
            print(f"{name}: {mistake}", file=sys.stderr)
            return 2

    return with_packages(name, work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
