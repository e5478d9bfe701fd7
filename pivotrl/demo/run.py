"""The demo: from expert trajectories to a better agent and a report, on two CPU processes.

    python -m pivotrl.demo.run [seed=1] [section.key=value ...]          (bash tools/demo.sh)

One run is: write trajectories, measure the base model, select pivots, train, measure again, export, report. All of it
goes through the functions that the commands of a real run call. A run that was killed is continued; the folder of one
that finished is moved aside.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pivotrl.command import add_ranks, run_command

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.session import Session

TRAJECTORIES = 120
"""Expert trajectories written; `trajectories.heldout_share` of them are kept for measuring."""
QUESTIONS = 100
"""Of each other family."""
EVALUATION = {"sampled": ["turns", "tasks"], "greedy": ["families"], "environment": "desk", "answer_tokens": 16}
"""What the demo measures: section `evaluation`, with the file of questions."""


def run(config: "RunConfig") -> dict[str, Any]:
    """The whole demo (collective).

    Returns:
        The summary that `summary.json` holds, on every rank.
    """
    from pivotrl.pivots.selection import select_pivots
    from pivotrl.session import open_session
    from pivotrl.telemetry.report import write_report
    from pivotrl.train import train
    from pivotrl.trajectories.store import write_json

    folder, rank = Path(config.output), int(os.environ.get("RANK", "0"))
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(name: str, remark: str = "") -> Iterator[None]:
        """Announce a stage and take its time."""
        if rank == 0:
            print(f"== {name} {remark}".rstrip(), flush=True)
        started = time.perf_counter()
        yield
        seconds[name] = round(time.perf_counter() - started, 1)

    with stage("start", "(policy and engines: half a minute without a word)"):
        session = open_session(config)
    with stage("measure the base model"):
        base = measured(session, "base")
    with stage("select pivots"):
        selection = select_pivots(config, session.engine, session.parser, session.template, folder / "pivots")
    with stage("train"):
        train(session)
    with stage("measure the trained model"):
        trained = measured(session, "trained")
    with stage("export"):
        export(session, folder / "hf")
    evaluation = {"base": base, "trained": trained}
    summary = {"seconds": seconds, "selection": selection, "evaluation": evaluation}
    if rank == 0:
        write_json(folder / "evaluation.json", evaluation)
        write_json(folder / "summary.json", summary)
        report = write_report(folder, folder / "report.html")
        print(table(evaluation, seconds), f"The trained model: {folder / 'hf'}", f"The report: {report}", sep="\n")
    return summary


def measured(session: "Session", name: str) -> dict[str, Any]:
    """Turn reward on held-out trajectories, success in the live desk, accuracy of the other families (collective).

    A measurement that an interrupted run finished is read, not repeated.
    """
    from pivotrl.evaluation.comparison import mean_of
    from pivotrl.evaluation.measure import evaluate

    result = evaluate(session, session.config.evaluation, name)
    asked = result["families"]["greedy"]
    families = list(dict.fromkeys(answer["family"] for answer in asked))
    return {
        "turn_reward": mean_of(result, "turn_reward", "sampled"),
        "mixed_share": mean_of(result, "mixed", "sampled"),
        "task_success": mean_of(result, "task_success", "sampled"),
        "turns_per_task": mean_of(result, "task_turns", "sampled"),
        "violations": mean_of(result, "violations", "sampled"),
        "families": {family: mean_of(result, f"family {family}", "greedy") for family in families}
        | {"mean": mean_of(result, "families", "greedy")},
        "counts": {
            "turns": len(result["turns"]["sampled"]),
            "tasks": len(result["tasks"]["sampled"]),
            "questions per family": len(asked) // len(families),
        },
    }


def export(session: "Session", folder: Path) -> None:
    """Write the policy as a Hugging Face folder that transformers and vLLM load (collective)."""
    import torch

    from pivotrl.policy.hf_files import write_folder

    model, tensors = session.config.model, session.policy.export()
    if session.world.rank == 0:
        write_folder(tensors, Path(model.path), folder, getattr(torch, model.dtype))
    else:
        for _ in tensors:  # every rank takes part in gathering them
            pass


def table(evaluation: dict[str, Any], seconds: dict[str, float]) -> str:
    """The short table that the terminal gets."""
    base, trained = evaluation["base"], evaluation["trained"]
    rows = [
        ("turn reward, held-out trajectories", base["turn_reward"], trained["turn_reward"]),
        ("task success, live desk", base["task_success"], trained["task_success"]),
    ]
    rows += [
        (f"other families: {name.replace('mean', 'mean of the four')}", before, trained["families"][name])
        for name, before in base["families"].items()
    ]
    lines = [f"{'':36}{'base':>8}{'trained':>9}{'points':>8}"]
    lines += [f"{name:36}{before:8.3f}{after:9.3f}{100 * (after - before):+8.1f}" for name, before, after in rows]
    spent = ", ".join(f"{name} {value:.0f} s" for name, value in seconds.items())
    return "\n".join(["", *lines, "", f"Time: {spent}; {sum(seconds.values()):.0f} s in all"])


def prepare(overrides: list[str]) -> "RunConfig":
    """The demo's configuration, its folder, its trajectories and questions; rank 0 writes, others see the same
    answer."""
    from pivotrl.config import load_config
    from pivotrl.demo import questions, trajectories

    config = load_config("configs/demo_cpu.yaml", overrides)
    folder = Path(config.output)
    file, asked = folder / "trajectories.jsonl", folder / "questions.jsonl"
    if os.environ.get("RANK", "0") == "0":
        if (folder / "summary.json").exists():
            aside = next(path for n in range(1, 10**6) if not (path := Path(f"{folder}.{n}")).exists())
            folder.rename(aside)
            print(f"{folder} holds a finished run: moved to {aside}")
        trajectories.write(file, TRAJECTORIES, "train")
        questions.write(asked, QUESTIONS, "heldout")
    changed = {
        "trajectories": config.trajectories.model_copy(update={"files": [str(file)]}),
        "evaluation": config.evaluation.model_copy(update=EVALUATION | {"families": str(asked)}),
    }
    return config.model_copy(update=changed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_ranks(parser, default=2)
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="laid over configs/demo_cpu.yaml")
    arguments = parser.parse_args()
    return run_command(
        "pivotrl.demo.run", ["-m", "pivotrl.demo.run"], arguments.ranks, lambda: run(prepare(arguments.overrides))
    )


if __name__ == "__main__":
    sys.exit(main())
