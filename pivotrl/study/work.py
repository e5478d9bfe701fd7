"""Does the study's jobs in one session: the engine starts once, the policy anew for every job."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from pivotrl.policy.checkpoint_rotation import name_of
from pivotrl.study.measure import measure
from pivotrl.study.plan import ARM, Job, needs
from pivotrl.study.results import Results
from pivotrl.study.settings import configure

if TYPE_CHECKING:
    from pivotrl.config import RunConfig
    from pivotrl.session import Session


class Worker:
    """One process's session and what it does with it. A job that was killed goes on from its last point."""

    def __init__(self, results: Results, base: Path):
        self.results, self.base = results, base
        self._session: Session | None = None

    def do(self, job: Job) -> None:
        """Do one job to its end; its result is written point by point.

        Raises:
            ValueError: as what the job calls raises it.
        """
        {"base": self._base, "select": self._select, "train": self._train, "test": self._test}[job.stage](job)

    # ------------------------------------------------------------------ stages

    def _base(self, job: Job) -> None:
        session = self._start(self._config(job))
        sizes = self.results.sizes
        point = {"step": 0, "validation": self._validate(session, job)}
        point |= measure(session, "test", sizes.test_tasks, sizes.questions, job.seed)
        self.results.write(job, {"points": [point]})

    def _select(self, job: Job) -> None:
        from pivotrl.pivots.selection import select_pivots

        config = self._config(job)
        session = self._start(config)
        shutil.rmtree(
            Path(config.output) / "pivots", ignore_errors=True
        )  # of a killed attempt, whose cost is not known
        with clock() as spent:
            summary = select_pivots(
                config, session.engine, session.parser, session.template, Path(config.output) / "pivots"
            )
        point = {"step": 0, "summary": summary, **spent}
        self.results.write(job, {"points": [point]})

    def _train(self, job: Job) -> None:
        from pivotrl.telemetry.health import HealthStop

        result = self.results.read(job)
        points, done = result["points"], {point["step"] for point in result["points"]}
        self._link_pivots(job)
        session: Session | None = None
        for step in self.results.steps(job):
            config = self._config(job, step)
            if step in done:
                continue
            session = self._start(config) if session is None else _with(session, config)
            spent = result.get("trained", {})
            if spent.get("step") != step:
                go_back(Path(config.output) / "checkpoints", max(done, default=0))
                try:
                    with clock() as spent:
                        trainer_of(job)(session)
                except HealthStop as stop:  # an arm that breaks at a rate is a result
                    self.results.write(job, {"points": points, "stopped": f"step {step}: {stop}"})
                    return
                if not (Path(config.output) / "checkpoints" / name_of(step)).is_dir():
                    raise SystemExit(f"{job}: asked to stop before step {step}")
                done.add(step)
                spent["step"] = step
                self.results.write(job, {"points": points, "trained": spent})
            else:  # killed while it was measured: the weights are read, the time is known
                trainer_of(job)(session)
            told = read_metrics(Path(config.output) / "metrics.jsonl", step)
            points.append({**spent, **told, **self._validate(session, job)})
            self.results.write(job, {"points": points})

    def _test(self, job: Job) -> None:
        from pivotrl.policy.weights import load_model_weights
        from pivotrl.rollout.refit import refit

        sizes, points = self.results.sizes, self.results.read(job)["points"]
        done = {point["step"] for point in points}
        trained = self.results.read(Job("train", job.name, job.seed, job.rate))["points"]
        session = self._start(self._config(job))
        for step in (point["step"] for point in trained):
            if step in done:
                continue
            folder = Path(session.config.output) / "checkpoints" / f"step_{step:06d}"
            load_model_weights(folder, session.policy.model)
            refit(session.policy, session.engine)
            found = measure(session, "test", sizes.test_tasks, sizes.questions, job.seed)
            points.append({"step": step, **found})
            self.results.write(job, {"points": points})
        self.results.write(job, {"points": points})

    # ------------------------------------------------------------------ the session

    def _config(self, job: Job, steps: int = 1) -> "RunConfig":
        return configure(job, self.results.sizes, self.results.folder, self.base, steps)

    def _validate(self, session: "Session", job: Job) -> dict[str, Any]:
        sizes = self.results.sizes
        return measure(session, "validation", sizes.validation_tasks, sizes.questions, job.seed)

    def _start(self, config: "RunConfig") -> "Session":
        """A session at the base's weights, with a new optimizer."""
        from pivotrl.session import open_session, reset

        before, self._session = self._session, None
        self._session = open_session(config) if before is None else reset(before, config)
        return self._session

    def _link_pivots(self, job: Job) -> None:
        """Let a run find its selection where training looks for it."""
        for selection in needs(job):
            link = self.results.folder / job.folder / "pivots"
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(Path("../..") / selection.folder / "pivots")


def _with(session: "Session", config: "RunConfig") -> "Session":
    """The same policy, told to train on to another number of steps."""
    session.policy.config = config
    return replace(session, config=config)


def go_back(checkpoints: Path, step: int) -> None:
    """Let a run go on from its checkpoint of `step` (0: the start), though later ones are there: what an attempt that
    was killed or stopped cost is not known, so its stretch is trained again."""
    for folder in checkpoints.glob("step_*"):
        if int(folder.name.removeprefix("step_").partition(".")[0]) > step:
            shutil.rmtree(folder)
    marker = checkpoints / "latest"
    if step:
        marker.write_text(name_of(step), encoding="ascii")
    else:
        marker.unlink(missing_ok=True)


def trainer_of(job: Job) -> Callable[["Session"], None]:
    """What trains the job's arm; it continues from the run's newest checkpoint."""
    kind = ARM[job.name].kind
    if kind == "sft":
        from pivotrl.baselines.sft import train
    elif kind == "episodes":
        from pivotrl.baselines.end_to_end import train
    else:
        from pivotrl.train import train
    return train


def read_metrics(path: Path, steps: int) -> dict[str, float]:
    """What a run of `steps` steps has told so far: turns and tokens sampled, share of groups with a signal."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    rows = list({row["step"]: row for row in rows if row["step"] < steps}.values())
    told: dict[str, float] = {"rollout_turns": rows[-1]["rollout_turns"]}
    told["sampled_tokens"] = sum(row["response_tokens"] for row in rows) if told["rollout_turns"] else 0
    if all("signal_share" in row for row in rows):
        told["signal_share"] = sum(row["signal_share"] for row in rows) / len(rows)
        told["reward"] = rows[-1]["reward"]
    return told


@contextmanager
def clock() -> Iterator[dict[str, float]]:
    """Seconds of the wall clock and of the processor, filled in at the end. The children's count, since verdicts are
    computed in some."""
    spent: dict[str, float] = {}
    wall, processor = time.perf_counter(), processor_seconds()
    yield spent
    spent |= {"seconds": time.perf_counter() - wall, "processor_seconds": processor_seconds() - processor}


def processor_seconds() -> float:
    """Seconds of the processor that this process and all its descendants have used; of those that ended, what they used
    once they were waited for."""
    own = psutil.Process()
    total = sum(own.cpu_times()[:4])
    for child in own.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:4])
    return total
