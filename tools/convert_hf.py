"""Convert between Hugging Face folders and Megatron checkpoints, and prove that nothing is lost on the way.

  python tools/convert_hf.py to-megatron --hf FOLDER --out CHECKPOINT
  python tools/convert_hf.py to-hf --checkpoint CHECKPOINT --out FOLDER
  python tools/convert_hf.py verify --hf FOLDER --tensor 2 --expert 2

`verify` proves the map between the two formats and the round trip, on the weights as they are. It cannot tell whether
those weights were damaged before: there is no checksum in either format, and `to-hf` copies a changed byte as it is.

A layout of more than one rank is started on this machine by the command itself, unless torchrun or srun has done it.
Exit code: 0; 1 where `verify` found a difference; 2 for a mistake in the arguments or the files.
"""

import argparse
import math
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import with_packages

VERIFY = "round trip of every byte, and logits against transformers"
LIMIT = "It checks the map between the formats; a folder whose weights were damaged before passes as long as it loads."


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
    one = commands.add_parser("to-megatron", parents=[layout], help="Hugging Face folder -> Megatron checkpoint")
    one.add_argument("--hf", type=Path, required=True, help="folder with config.json and safetensors")
    one.add_argument("--out", type=Path, required=True, help="folder to write, new or empty")
    two = commands.add_parser("to-hf", parents=[layout], help="Megatron checkpoint -> Hugging Face folder")
    two.add_argument("--checkpoint", type=Path, required=True, help="of to-megatron, or step_NNNNNN of a training run")
    two.add_argument("--out", type=Path, required=True, help="folder to write, new or empty")
    two.add_argument("--hf", type=Path, help="folder with config and tokenizer, where the checkpoint names none")
    three = commands.add_parser("verify", parents=[layout], help=VERIFY, description=f"{VERIFY}. {LIMIT}")
    three.add_argument("--hf", type=Path, required=True, help="folder with config.json and safetensors")
    three.add_argument("--weights-only", action="store_true", help="no logits: for a model too large for one process")
    return parser.parse_args(argv)


def run(arguments: argparse.Namespace, argv: list[str]) -> int:
    from pydantic import ValidationError

    from pivotrl.policy.architecture import Architecture
    from pivotrl.policy.config import ParallelConfig

    try:
        layout = ParallelConfig(
            tensor=arguments.tensor,
            pipeline=arguments.pipeline,
            expert=arguments.expert,
            expert_tensor=arguments.expert_tensor,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"--{str(first['loc'][0]).replace('_', '-')} is {first['input']}: {first['msg']}") from None

    from pivotrl.policy import convert, parallel

    if arguments.command != "verify":
        convert.refuse_used(arguments.out)
    source = arguments.hf or convert.side_files_of(arguments.checkpoint)
    ranks = layout.pipeline * math.lcm(layout.tensor, layout.expert * layout.expert_tensor)
    parallel.check_layout(layout, Architecture.from_hf(source), int(os.environ.get("WORLD_SIZE", ranks)))
    if ranks > 1 and "RANK" not in os.environ:
        from pivotrl.policy.local_ranks import run_ranks

        return run_ranks(ranks, [__file__, *argv])
    if arguments.command == "to-megatron":
        convert.to_megatron(arguments.hf, arguments.out, layout)
    elif arguments.command == "to-hf":
        convert.to_hf(arguments.checkpoint, arguments.out, layout, arguments.hf)
    else:
        problems = convert.verify(arguments.hf, layout, arguments.weights_only)
        for problem in problems:
            print(f"convert_hf verify: {problem}", file=sys.stderr)
        if int(os.environ.get("RANK", "0")) == 0 and not problems:
            print(f"{arguments.hf}: verified")
        return 1 if problems else 0
    return 0


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    warnings.filterwarnings("ignore")
    name = f"convert_hf {arguments.command}"

    def work() -> int:
        try:
            return run(arguments, argv)
        except ValueError as mistake:
            print(f"{name}: {mistake}", file=sys.stderr)
            return 2

    return with_packages(name, work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
