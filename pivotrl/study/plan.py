"""What the study runs: arms, sizes, and the jobs that follow from what is done so far."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["pivots", "sft", "episodes"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One contestant. `overrides` is laid over the common configuration."""

    name: str
    title: str
    kind: Kind
    turns: str = ""
    """Which selection it trains on; see `SELECTIONS`."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    batch: float = 1.0
    """Share of the usual pivots, or tasks, of a step."""


SELECTIONS: dict[str, dict[str, Any]] = {
    "functional": {},
    "strict": {"verifier.name": "exact"},
    "random": {"pivots.keep": "all", "pivots.samples": 2},
    "thrifty": {"pivots.profiling": "thrifty"},
    "mixed": {"pivots.keep": "mixed"},
}
"""Name -> what it changes. Random turns need no profile: 2 samples is the least that selection can draw, and their cost
is not charged."""

ARMS = (
    Arm("pivotrl", "PivotRL", "pivots", "functional"),
    Arm("sft", "SFT", "sft"),
    Arm("random", "random turns", "pivots", "random"),
    Arm("strict", "strict reward", "pivots", "strict", {"verifier.name": "exact"}),
    Arm("end_to_end", "end-to-end RL", "episodes"),
    Arm("kl", "PivotRL with KL", "pivots", "functional", {"objective.beta": 0.01}),
    Arm("thrifty", "PivotRL, thrifty, half batch", "pivots", "thrifty", batch=0.5),
    Arm("end_to_end_half", "end-to-end RL, half batch", "episodes", batch=0.5),
    Arm("mixed", "mixed turns of any mean", "pivots", "mixed"),
)
ARM = {arm.name: arm for arm in ARMS}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. Every arm gets the same number of rates and of points on the steps' axis."""

    arms: tuple[str, ...] = tuple(name for name in ARM if name != "mixed")
    trajectories: int = 120
    """Expert trajectories, all of them for training."""
    seeds: tuple[int, ...] = (1, 2, 3)
    """The rates are swept on the first."""
    rates: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 2e-3)
    points: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {
            "pivots": (10, 25, 50, 100, 160),
            "sft": (50, 100, 200, 400, 700),
            "episodes": (10, 25, 50, 100, 160),
        }
    )
    """Kind of arm -> optimizer steps after which it is measured."""
    profile_samples: int = 8
    pivots_per_step: int = 16
    group_size: int = 8
    tasks_per_step: int = 4
    """Of end-to-end RL; each is played `group_size` times."""
    trajectories_per_step: int = 8
    """Of SFT."""
    validation_tasks: int = 200
    test_tasks: int = 400
    questions: int = 200
    """Of each family, of each of the two streams."""


QUICK = Sizes(
    trajectories=24,
    seeds=(1, 2),
    rates=(5e-4, 1e-3),
    points={"pivots": (2, 4), "sft": (2, 4), "episodes": (2, 4)},
    profile_samples=4,
    pivots_per_step=8,
    group_size=4,
    tasks_per_step=2,
    validation_tasks=12,
    test_tasks=12,
    questions=10,
)
"""Minutes instead of hours: it shows that everything runs, and nothing else."""


SETTLED = Sizes(arms=("pivotrl", "random", "mixed"), trajectories=480, rates=(1e-4, 3e-4, 1e-3))
"""A second contest, from a base that the first one trained: most turns are settled for it, as they are for the paper's
models."""
QUICK_SETTLED = replace(QUICK, arms=SETTLED.arms, trajectories=48)


def sizes_of(quick: bool, settled: bool) -> Sizes:
    """The sizes of a contest."""
    return (QUICK_SETTLED if quick else SETTLED) if settled else (QUICK if quick else Sizes())


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work, and the folder of its results. Jobs of one `folder` may not run at the same time."""

    stage: Literal["base", "select", "train", "test"]
    name: str
    seed: int
    rate: float = 0.0

    @property
    def folder(self) -> str:
        """Within the study's folder."""
        if self.stage == "train" or self.stage == "test":
            return f"runs/{self.name}-seed{self.seed}-lr{self.rate:g}"
        return f"{self.stage}/{self.name}-seed{self.seed}"

    def __str__(self) -> str:
        return f"{self.stage} {self.name}, seed {self.seed}" + (f", lr {self.rate:g}" if self.rate else "")


def needs(job: Job) -> list[Job]:
    """Jobs that must be done before this one."""
    if job.stage == "train" and (turns := ARM[job.name].turns):
        return [Job("select", turns, job.seed)]
    return [Job("train", job.name, job.seed, job.rate)] if job.stage == "test" else []


def sweep(arm: Arm, sizes: Sizes) -> list[Job]:
    """The runs by which an arm's rate is chosen."""
    return [Job("train", arm.name, sizes.seeds[0], rate) for rate in sizes.rates]


def jobs(sizes: Sizes, best_rate: Mapping[str, float]) -> Iterator[Job]:
    """All jobs that can be named: an arm's other seeds and its tests once its best rate is known. Longest first."""
    first, arms = sizes.seeds[0], [ARM[name] for name in reversed(sizes.arms)]
    selections = [name for name in SELECTIONS if name in {arm.turns for arm in arms}]
    yield from (Job("select", name, first) for name in selections)
    for arm in arms:
        yield from sweep(arm, sizes)
    yield from (Job("base", "base", seed) for seed in sizes.seeds)
    yield from (Job("select", name, seed) for seed in sizes.seeds[1:] for name in selections)
    for arm in arms:
        if arm.name in best_rate:
            for seed in sizes.seeds:
                job = Job("train", arm.name, seed, best_rate[arm.name])
                yield from () if seed == first else (job,)
                yield Job("test", arm.name, seed, job.rate)


def count(sizes: Sizes) -> int:
    """How many jobs the whole study has."""
    return len(list(jobs(sizes, dict.fromkeys(ARM, sizes.rates[0]))))
