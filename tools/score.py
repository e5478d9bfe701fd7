"""Judge answers by a verifier, or audit the verifier itself.

    python tools/score.py --verifier NAME [--preset nemo_gym|robust] [--param k=v]... --rows IN.jsonl --out OUT.jsonl
    python tools/score.py --verifier NAME --audit (--rows IN.jsonl | --trajectories FILE...) [--out OUT.jsonl]

docs/verifiers.md says what rows look like. Exit code 0; 1 where an audit finds a probe that breaks, and
where the verifier fails on every row; 2 after a mistake in the arguments or the file, or where every row is bad.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import run_command


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verifier", required=True, metavar="NAME", help="or my_package.module:MyVerifier")
    parser.add_argument("--preset", metavar="nemo_gym|robust", help="default: nemo_gym where the verifier has it")
    parser.add_argument(
        "--param", action="append", default=[], metavar="k=v", help="a parameter; v is YAML, k may be dotted"
    )
    parser.add_argument("--rows", metavar="IN.jsonl", help="JSON Lines, or one JSON array")
    parser.add_argument("--out", metavar="OUT.jsonl", help="a verdict a row; bad rows go to OUT.rejected.jsonl")
    parser.add_argument("--tool-parser", default="hermes", metavar="NAME", help="vLLM's, for `text` (default hermes)")
    parser.add_argument("--reasoning-parser", metavar="NAME", help="vLLM's, for `text` (default: none)")
    parser.add_argument("--tokenizer", metavar="FOLDER", help="the policy's, for `text` (default: the demo's)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: the cores; 0: this one)")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="limit of one verdict (default 2)")
    parser.add_argument("--audit", action="store_true", help="is the verifier any good? Needs no answers")
    parser.add_argument("--trajectories", nargs="+", metavar="FILE", help="with --audit, in place of --rows")
    options = parser.parse_args(arguments)
    if options.trajectories and not options.audit:
        parser.error("--trajectories belongs to --audit: write both")
    if options.rows and options.trajectories:
        parser.error("--rows and --trajectories: give one of them")
    if not options.rows and not options.trajectories:
        parser.error("--audit needs --rows IN.jsonl, or --trajectories FILE" if options.audit else "--rows is missing")
    if not options.out and not options.audit:
        parser.error("--out is missing (only --audit does without)")
    return options


def verifier_section(options: argparse.Namespace):
    """The run's section `verifier`, checked as a configuration file's is."""
    from pivotrl.config import parse_config

    workers = len(os.sched_getaffinity(0)) if options.workers is None else options.workers
    section = {"name": options.verifier, "preset": options.preset, "workers": workers, "seconds": options.seconds}
    section["params"] = parameters(options.param)
    return parse_config({"output": "none", "model": {"path": "none"}, "verifier": section}, "command line").verifier


def parameters(words: list[str]) -> dict:
    """`a.b=1` as `{"a": {"b": 1}}`."""
    import yaml

    from pivotrl import plain_yaml

    found: dict = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(f"--param {word!r}: write name=value, for example word_count_similarity_threshold=0.3")
        *parents, leaf = key.split(".")
        node = found
        for name in parents:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise ValueError(f"--param {word!r}: {name} was given a value before; write one of the two")
        try:
            node[leaf] = plain_yaml.load(text)
        except yaml.YAMLError:
            raise ValueError(f"--param {word!r}: {text!r} is not a YAML value; quote it") from None
    return found


def run(options: argparse.Namespace) -> bool:
    """Whether all is well: no probe of an audit breaks, and the verifier gave verdicts."""
    from pivotrl.verifiers.completions import CompletionParser
    from pivotrl.verifiers.rows import RowReader, TurnRows
    from pivotrl.verifiers.score_files import Outputs
    from pivotrl.verifiers.scoring import score, score_audit

    if ":" in options.verifier:
        sys.path.append(os.getcwd())  # where the user's own class may be; behind all else, to hide no other module
    section = verifier_section(options)
    outputs = Outputs(options.out, options.trajectories or [options.rows])
    if not options.audit:
        parser = CompletionParser(options.tokenizer, options.tool_parser, options.reasoning_parser)
        return score(RowReader(options.rows, section, parser), section, outputs, parser=parser)
    if options.rows:
        return score_audit(RowReader(options.rows, section, None), section, outputs)

    from pivotrl.trajectories.config import TrajectoriesConfig
    from pivotrl.trajectories.turns import TurnReader

    reader = TurnReader(TrajectoriesConfig(files=options.trajectories), 0)
    return score_audit(TurnRows(reader, section), section, outputs)


def main() -> int:
    options = parse_arguments()
    well = []
    code = run_command("score", [__file__], 1, lambda: well.append(run(options)))
    return code or (0 if all(well) else 1)


def end(number: int, frame: object) -> None:
    """As Ctrl-C does: what is half written is removed on the way out. (A SystemExit would be the verifier's fault.)"""
    raise KeyboardInterrupt(number)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup's are left alone
            signal.signal(number, end)
    sys.exit(main())
