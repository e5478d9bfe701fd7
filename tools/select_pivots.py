"""Find the pivots of expert trajectories: profile every assistant turn with the frozen policy, keep the mixed ones.

    python tools/select_pivots.py --config CONFIG --trajectories FILE... --out FOLDER [section.key=value ...]
    python tools/select_pivots.py --trajectories FILE... --inspect [--json]        (needs no model)
    python tools/select_pivots.py report FOLDER [--out FILE] [--json]              (what a selection found, as a page)

Started again with the same arguments after a kill, and with any number of ranks, it continues; asked to stop, it ends
after the turns in hand (`cluster/preemption.py`). With --ranks N, or under torchrun, all ranks share the work: each
engine takes some more trajectories when it is free.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pivotrl.command import add_ranks, run_alone, run_command


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", help="YAML file of the run")
    parser.add_argument("--trajectories", nargs="+", metavar="FILE", help="in place of trajectories.files")
    parser.add_argument("--out", metavar="FOLDER", help="default: the folder `pivots` in the run's output")
    add_ranks(parser)
    parser.add_argument("--inspect", action="store_true", help="say what the files hold, and stop")
    parser.add_argument("--json", action="store_true", help="with --inspect: as JSON")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over the file")
    options = parser.parse_args(arguments)
    if options.json and not options.inspect:
        parser.error("--json belongs to --inspect: write both")
    # `--trajectories a.json key=value` gives argparse no way to tell files from overrides.
    words = options.trajectories or []
    overrides = [word for word in words if re.match(r"[a-z_.]+=", word) and not Path(word).exists()]
    options.overrides += overrides
    options.trajectories = [word for word in words if word not in overrides]
    return options


def report(arguments: list[str]) -> int:
    """The subcommand `report`: analyse a finished selection."""
    parser = argparse.ArgumentParser(
        prog="select_pivots.py report", description="Analyse a finished selection: one HTML file, and a few lines here."
    )
    parser.add_argument("folder", help="folder of the selection, or of its run")
    parser.add_argument("--out", metavar="FILE", help="HTML file to write (FOLDER/analysis.html)")
    parser.add_argument("--trajectories", nargs="+", metavar="FILE", help="where the trajectories are now")
    parser.add_argument("--json", action="store_true", help="print everything as JSON in place of a few lines")
    options = parser.parse_args(arguments)

    def work() -> None:
        from pivotrl.pivots.analysis.analyse import write_analysis
        from pivotrl.pivots.analysis.folder import open_selection
        from pivotrl.pivots.analysis.text import describe

        found, page = write_analysis(open_selection(options.folder, options.trajectories), options.out)
        print(json.dumps(found, indent=2) if options.json else f"{describe(found)}\nreport: {page}")

    return run_alone("select_pivots report", work)


def inspect_files(options: argparse.Namespace) -> None:
    from pivotrl.trajectories.inspection import describe, inspect

    if options.config:
        config = load(options)
        section, seed = config.trajectories, config.seed
    else:
        section, seed = trajectories_alone(options), 0
    found = inspect(section, seed)
    print(json.dumps(found, indent=2) if options.json else describe(found))


def trajectories_alone(options: argparse.Namespace):
    """The section without a run's file: from the files named and the `trajectories.` overrides."""
    import yaml

    from pivotrl import plain_yaml
    from pivotrl.config import parse_config
    from pivotrl.trajectories.config import TrajectoriesConfig

    values = {"files": options.trajectories}
    for override in options.overrides:
        key, _, text = override.partition("=")
        name = key.removeprefix("trajectories.")
        if name == key or name not in TrajectoriesConfig.model_fields:
            known = ", ".join(f"trajectories.{field}" for field in TrajectoriesConfig.model_fields)
            raise ValueError(f"unknown key {key}; without --config the keys are {known}")
        try:
            values[name] = plain_yaml.load(text)
        except yaml.YAMLError:
            raise ValueError(f"override {override!r}: {text!r} is not a YAML value; quote it") from None
    needed = {"output": "none", "model": {"path": "none"}}
    return parse_config({**needed, "trajectories": values}, "command line").trajectories


def load(options: argparse.Namespace):
    """The run's configuration, with the command line's files and overrides."""
    from pivotrl.config import load_config

    config = load_config(options.config, options.overrides)
    if options.trajectories:
        section = config.trajectories.model_copy(update={"files": options.trajectories})
        config = config.model_copy(update={"trajectories": section})
    return config


def select(options: argparse.Namespace) -> None:
    if not options.config:
        raise ValueError("--config is missing: give the run's YAML file (only --inspect does without)")
    config = load(options)

    from pivotrl.cluster import state
    from pivotrl.cluster.preemption import Preemption, Stopped
    from pivotrl.pivots.lock import FolderLock
    from pivotrl.pivots.report import describe
    from pivotrl.pivots.selection import select_pivots, survey_files
    from pivotrl.planning.sizes import for_engine_alone
    from pivotrl.trajectories.template import ChatTemplate

    # A selection knows itself again by its context, among others. Where no model is there, the template says so.
    if config.rollout.max_model_len is None and (Path(config.model.path) / "config.json").is_file():
        config = for_engine_alone(config)
    out = Path(options.out or Path(config.output) / "pivots")
    with FolderLock(out) as lock:  # first of all, before the seconds that an engine takes
        survey_files(config, out, lock if os.environ.get("RANK", "0") == "0" else None)
    template = ChatTemplate(config.model.path, config.model.chat_template)
    config = for_engine_alone(config)

    from pivotrl.rollout.engine import Engine
    from pivotrl.rollout.parsing import ActionParser

    group = config.pivots.samples
    engine = Engine(config.rollout, config.model.path, config.model.dtype, config.seed, group=group)
    parser = ActionParser(template.tokenizer, config.rollout.tool_parser, config.rollout.reasoning_parser)
    try:
        with Preemption() as preemption:
            summary = select_pivots(config, engine, parser, template, out, preemption.asked_here)
        done, total, reason, words = summary["candidates"], summary["candidates"], "", describe(summary, out)
    except Stopped as stop:
        done, total, reason, words = stop.done, stop.total, stop.reason, str(stop)
    if engine.rank == 0:
        state.write(out, done, total, reason)
        print(words)


def main() -> int:
    if sys.argv[1:2] == ["report"]:
        return report(sys.argv[2:])
    options = parse_arguments()
    work = inspect_files if options.inspect else select
    ranks = 1 if options.inspect else options.ranks
    return run_command("select_pivots", [__file__], ranks, lambda: work(options))


if __name__ == "__main__":
    sys.exit(main())
