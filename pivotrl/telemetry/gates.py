"""Is the run well? Each gate reads a step's metrics and says where they leave its bounds.

Pure: what a gate knows of the past follows from the rows of `metrics.jsonl`, so a resumed run judges as if it had never
stopped.
"""

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, ClassVar

from pivotrl.telemetry.health_config import (
    CanaryGate,
    EntropyGate,
    FormatGate,
    GapGate,
    GateConfig,
    GradNormGate,
    HealthConfig,
    ReasonsGate,
    RefitGate,
    RefitTrendGate,
)

Row = Mapping[str, Any]
"""Metric -> number; None, NaN or an infinity where the number was not finite."""

LEAST_STEPS = 5
"""Steps that a running median needs before it is a bound; all of the window's where it is shorter."""
CANARY_BOUNDS = {"float32": 5e-4, "bfloat16": 1.0}


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure out of its bounds."""

    value: float | None
    """None: it is no finite number."""
    bound: float | None
    said: str
    """What the figure is and what it is held against, in words."""


@dataclass(frozen=True, slots=True)
class Event:
    """A gate that speaks. Steps count from 0, as in the files."""

    step: int
    gate: str
    action: str
    value: float | None
    bound: float | None
    since: int
    """First of the steps in a row that were out of bounds."""
    said: str
    remedy: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def line(self) -> str:
        """The event for people; steps count from 1, as on the terminal."""
        since = "" if self.since == self.step else f", since step {self.since + 1}"
        return f"health.{self.gate}: {self.said} at step {self.step + 1}{since}; {self.remedy}"


class Gate(ABC):
    """One gate with what it remembers."""

    remedy: ClassVar[str]
    """What to do, for the end of its line."""

    @abstractmethod
    def look(self, row: Row) -> Finding | None:
        """Judge a step against the steps before it, then remember it."""


class Gates:
    """All gates of a run that are not off."""

    def __init__(self, config: HealthConfig, dtype: str) -> None:
        """`dtype` is the model's: "float32" or "bfloat16"."""
        window = config.window
        every: dict[str, tuple[GateConfig, Gate]] = {
            "finite": (config.finite, Finite()),
            "gap": (config.gap, Gap(config.gap)),
            "canary": (config.canary, Canary(config.canary, dtype)),
            "grad_norm": (config.grad_norm, GradNorm(config.grad_norm, window)),
            "entropy": (config.entropy, Entropy(config.entropy, window)),
            "format": (config.format, Format(config.format)),
            "reasons": (config.reasons, Reasons(config.reasons, window)),
            "refit": (config.refit, Refit(config.refit, window)),
            "refit_trend": (config.refit_trend, RefitTrend(config.refit_trend, window)),
        }
        self._gates = {name: pair for name, pair in every.items() if pair[0].action != "off"}
        self._since: dict[str, int] = {}

    def judge(self, step: int, row: Row) -> list[Event]:
        """The gates that are out of bounds at a step. One that stays so speaks at its 1st, 2nd, 4th, 8th ... step,
        counted from the end of its patience; one that stops the run, each time."""
        events = []
        for name, (config, gate) in self._gates.items():
            found = gate.look(row)
            if found is None:
                self._since.pop(name, None)
                continue
            since = self._since.setdefault(name, step)
            times = step - since + 2 - config.patience
            if times >= 1 and (config.action == "stop" or times & (times - 1) == 0):
                facts = (found.value, found.bound, since, found.said, gate.remedy)
                events.append(Event(step, name, config.action, *facts))
        return events


class Finite(Gate):
    remedy = (
        "the update was left out and the weights are as before it; lower optimizer.lr, or look at this step's samples"
    )

    def look(self, row: Row) -> Finding | None:
        for name, words in (("loss", "the loss"), ("grad_norm", "the gradient's norm")):
            if name in row and _number(row, name) is None:
                return Finding(None, None, f"{words} is no finite number")
        return None


class Gap(Gate):
    remedy = (
        "the engine's weights or numerics are not the trainer's: look at canary_error and gap_max; "
        "for MoE models set training.router_replay or objective.importance"
    )

    def __init__(self, config: GapGate) -> None:
        self._above = config.above

    def look(self, row: Row) -> Finding | None:
        return _above(row, "gap", self._above, "the mean gap of sampler and trainer", "health.gap.above")


class Canary(Gate):
    remedy = "the engine drifts from the trainer after refits: compare canary_error's curve with the refit that changed"

    def __init__(self, config: CanaryGate, dtype: str) -> None:
        self._above = CANARY_BOUNDS[dtype] if config.above is None else config.above

    def look(self, row: Row) -> Finding | None:
        return _above(row, "canary_error", self._above, "the canary's error", "health.canary.above")


class GradNorm(Gate):
    remedy = "lower optimizer.lr or optimizer.clip_grad, or look at this step's samples"

    def __init__(self, config: GradNormGate, window: int) -> None:
        self._config, self._least = config, min(LEAST_STEPS, window)
        self._last: deque[float] = deque(maxlen=window)

    def look(self, row: Row) -> Finding | None:
        words = "the gradient's norm"
        norm = _number(row, "grad_norm")
        if norm is None:
            return None
        found = None
        if self._config.above is not None:
            found = _above(row, "grad_norm", self._config.above, words, "health.grad_norm.above")
        if found is None and self._config.times is not None and len(self._last) >= self._least:
            usual = median(self._last)
            if usual > 0 and norm > (bound := self._config.times * usual):
                held = f"{self._config.times:g} x the median {usual:.3g} of the last {len(self._last)} steps"
                found = Finding(norm, bound, f"{words} is {norm:.3g}, above {bound:.3g} ({held})")
        if norm > 0:  # a batch without a signal has no gradient
            self._last.append(norm)
        return found


class Entropy(Gate):
    remedy = "the policy explores no more: raise objective.entropy_bonus or objective.beta, or end the run here"

    def __init__(self, config: EntropyGate, window: int) -> None:
        self._config, self._window = config, window
        self._start: list[float] = []

    def look(self, row: Row) -> Finding | None:
        entropy = _number(row, "entropy")
        if entropy is None:
            return None
        if len(self._start) < self._window:
            self._start.append(entropy)
            bound, held = self._config.below, "health.entropy.below"
        else:
            start = fmean(self._start)
            share = self._config.share_of_start
            bound, held = max(
                (self._config.below, "health.entropy.below"),
                (share * start, f"{share:g} x the {start:.3g} of the first {self._window} steps"),
            )
        if entropy < bound:
            return Finding(entropy, bound, f"the entropy is {entropy:.3g} nats, below {bound:.3g} ({held})")
        return None


class Format(Gate):
    remedy = "read OUTPUT/examples.json and the reasons in the report; raise rollout.max_new_tokens for cut_off"

    def __init__(self, config: FormatGate) -> None:
        self._config = config

    def look(self, row: Row) -> Finding | None:
        shares = {name: _number(row, f"reason.{name}") or 0.0 for name in self._config.reasons}
        share, bound = sum(shares.values()), self._config.above
        if share <= bound:
            return None
        most = max(shares, key=shares.__getitem__)
        words = f"{share:.0%} of the actions cannot be read, above {bound:.0%} (health.format.above), mostly {most}"
        return Finding(share, bound, words)


class Reasons(Gate):
    remedy = "if the benchmark did not rise with it, the verifier has a hole: read the reasons in the report"

    def __init__(self, config: ReasonsGate, window: int) -> None:
        self._above, self._window = config.above, window
        self._start: list[dict[str, float]] = []

    def look(self, row: Row) -> Finding | None:
        shares = {name: _number(row, name) or 0.0 for name in row if name.startswith("reason.")}
        if not shares:
            return None
        if len(self._start) < self._window:
            self._start.append(shares)
            return None
        names = set(shares).union(*self._start)
        mean = {name: sum(start.get(name, 0.0) for start in self._start) / self._window for name in names}
        change = {name: shares.get(name, 0.0) - mean[name] for name in names}
        distance = sum(map(abs, change.values())) / 2
        if distance <= self._above:
            return None
        most = max(sorted(change), key=lambda name: abs(change[name]))
        words = f"the verdicts' reasons are {distance:.2f} from those of the first {self._window} steps, above "
        words += f"{self._above:g} (health.reasons.above), mostly {most.removeprefix('reason.')} {change[most]:+.0%}"
        return Finding(distance, self._above, words)


class Refit(Gate):
    remedy = "look for a node whose links or memory became slow; a new start of the job makes the plan's buffers anew"

    def __init__(self, config: RefitGate, window: int) -> None:
        self._config, self._window = config, window
        self._start: list[float] = []

    def look(self, row: Row) -> Finding | None:
        seconds = _number(row, "refit_seconds")
        if seconds is None:
            return None
        if len(self._start) < self._window:
            self._start.append(seconds)
            return None
        usual = median(self._start)
        bound = max(self._config.times * usual, self._config.at_least)
        if seconds <= bound:
            return None
        held = f"{usual:.3g} s in the first {self._window} steps"
        return Finding(seconds, bound, f"the refit took {seconds:.3g} s, above {bound:.3g} s ({held})")


class RefitTrend(Gate):
    remedy = "look at refit_gb_per_second's curve; if a new start is as slow, others use the links"

    def __init__(self, config: RefitTrendGate, window: int) -> None:
        self._config, self._window = config, window
        self._start: list[float] = []
        self._last: deque[tuple[float, float]] = deque(maxlen=window)
        """GB/s and seconds of the steps after the start."""

    def look(self, row: Row) -> Finding | None:
        speed, seconds = _number(row, "refit_gb_per_second"), _number(row, "refit_seconds")
        if speed is None or seconds is None:
            return None
        if len(self._start) < self._window:
            self._start.append(speed)
            return None
        self._last.append((speed, seconds))
        now, lasts = (median(values) for values in zip(*self._last, strict=True))
        usual, share = median(self._start), self._config.share_of_start
        if len(self._last) < self._window or now >= share * usual or lasts < self._config.at_least:
            return None
        words = f"refits move {now:.3g} GB/s (median of the last {self._window} steps), below {share * usual:.3g}"
        held = f"{share:g} x the {usual:.3g} of the first {self._window}"
        return Finding(now, share * usual, f"{words} ({held})")


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return float(value) if value is not None and math.isfinite(value) else None


def _above(row: Row, name: str, bound: float, words: str, key: str) -> Finding | None:
    value = _number(row, name)
    if value is None and name in row:
        return Finding(None, bound, f"{words} is no finite number")
    if value is None or value <= bound:
        return None
    return Finding(value, bound, f"{words} is {value:.3g}, above {bound:.3g} ({key})")
