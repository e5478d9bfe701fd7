"""A run's configuration: one YAML file, dotted overrides, and errors that say what to write instead."""

import copy
import difflib
import reprlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError, model_validator

from pivotrl import plain_yaml
from pivotrl.baselines.config import SftConfig
from pivotrl.environment import EnvironmentConfig
from pivotrl.evaluation.config import EvaluationConfig
from pivotrl.objective.config import ObjectiveConfig
from pivotrl.pivots.config import PivotsConfig
from pivotrl.pivots.fresh_config import FreshConfig
from pivotrl.policy.config import CheckpointConfig, ModelConfig, OptimizerConfig, ParallelConfig, TrainingConfig
from pivotrl.rollout.config import RolloutConfig
from pivotrl.schema import Section
from pivotrl.telemetry.config import TelemetryConfig
from pivotrl.telemetry.health_config import HealthConfig
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.verifiers.base import VerifierConfig

_MOST_ERRORS = 5
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 120
_COMMAND_LINE = "on the command line"


class RunConfig(Section):
    """Everything that decides a run. Each section is declared beside the code that uses it."""

    output: str = Field(min_length=1)
    """Folder of the run: pivots, metrics, checkpoints, report."""
    seed: int = Field(0, ge=0, le=2**32 - 1)
    """Seed of splits, sampling and batch order; NumPy's generators, which vLLM seeds with it, take 32 bits."""
    model: ModelConfig
    parallel: ParallelConfig = ParallelConfig()
    trajectories: TrajectoriesConfig = TrajectoriesConfig()
    verifier: VerifierConfig = VerifierConfig()
    pivots: PivotsConfig = PivotsConfig()
    fresh: FreshConfig = FreshConfig()
    rollout: RolloutConfig = RolloutConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    training: TrainingConfig = TrainingConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    sft: SftConfig = SftConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    health: HealthConfig = HealthConfig()

    @model_validator(mode="after")
    def _leaves_room_for_a_prompt(self) -> "RunConfig":
        new, longest = self.rollout.max_new_tokens, self.rollout.max_model_len
        if longest is not None and new >= longest:
            raise ValueError(
                f"rollout.max_new_tokens is {new}, which leaves no room for a prompt in rollout.max_model_len, "
                f"{longest}: lower the first or raise the second"
            )
        return self

    @model_validator(mode="after")
    def _stops_groups_it_can_weigh(self) -> "RunConfig":
        after, keep, size = self.rollout.early_stop.after, self.rollout.early_stop.keep, self.training.group_size
        if after is None:
            return self
        if after >= size:
            raise ValueError(
                f"rollout.early_stop.after is {after}, and training.group_size is {size}: nothing is left to stop; "
                "lower the first, or set it to null"
            )
        unweighted = {
            "objective.beta": self.objective.beta,
            "objective.entropy_bonus": self.objective.entropy_bonus,
            "model.aux_loss": self.model.aux_loss,
            "training.dynamic_sampling": self.training.dynamic_sampling,
        }
        for key, value in unweighted.items():
            if keep and value:
                raise ValueError(
                    f"{key} is {value:g}, and rollout.early_stop.keep is {keep:g}, which keeps the mean of the clipped "
                    f"term's gradient alone: set {key} to 0, rollout.early_stop.keep to 0 (biased), or "
                    "rollout.early_stop.after to null"
                )
        return self

    @model_validator(mode="after")
    def _weighs_what_was_sampled(self) -> "RunConfig":
        for key, reported in (("temperature", "at temperature 1"), ("top_p", "of the whole distribution")):
            value = getattr(self.rollout, key)
            if self.objective.importance != "none" and value != 1:
                raise ValueError(
                    f"objective.importance is {self.objective.importance}, and rollout.{key} is {value:g}: the engine "
                    f"reports log-probs {reported} only; set one of the two to none or 1"
                )
        return self


def load_config(path: str | Path, overrides: list[str] | None = None) -> RunConfig:
    """Read a run's YAML file and lay `section.key=value` overrides over it.

    Args:
        path: YAML file (plain values; no aliases, no key twice).
        overrides: `key=value` strings; the key is dotted, the value is YAML (`lr=1e-6`, `files=[a.jsonl, b.jsonl]`).

    Raises:
        ValueError: the file cannot be read, a key is unknown (the nearest known one is named) or a value does not fit;
            it says whether the file or an override has it.
    """
    tree = _read_yaml(Path(path))
    in_file = copy.deepcopy(tree)
    given = [_apply_override(tree, override) for override in overrides or []]

    def source(key: str, reason: str) -> str:
        below = any(one.startswith(f"{key}.") for one in given)
        if any(f"{key}.".startswith(f"{one}.") for one in given) or (below and not _holds(in_file, key)):
            return _COMMAND_LINE
        if below or (not key and any(one in reason for one in given)):
            return f"{path} and {_COMMAND_LINE}"
        return str(path)

    return _parse(tree, source)


def parse_config(tree: dict[str, Any], where: str) -> RunConfig:
    """Validate a nested mapping; `where` names its source in errors (ValueError)."""
    return _parse(tree, lambda key, reason: where)


def _parse(tree: dict[str, Any], source: Callable[[str, str], str]) -> RunConfig:
    """Validate; `source` names where a dotted key ("" for several) comes from, whose mistake the second text says."""
    for key, problem in _unknown_keys(tree, RunConfig, ""):
        raise ValueError(f"{source(key, problem)}: {problem}")
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        by_source: dict[str, list[str]] = {}
        for item in error.errors()[:_MOST_ERRORS]:
            described = _describe(item)
            by_source.setdefault(source(".".join(map(str, item["loc"])), described), []).append(described)
        said = [f"{name}: {'; '.join(described)}" for name, described in by_source.items()]
        more = error.error_count() - _MOST_ERRORS
        raise ValueError("; ".join([*said, f"and {more} more"] if more > 0 else said)) from None


def save_config(config: RunConfig, path: str | Path) -> None:
    """Write the resolved configuration as YAML; `load_config` reads it back to an equal one."""
    Path(path).write_text(plain_yaml.dump(config.model_dump(mode="json")), encoding="utf-8")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        tree = plain_yaml.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"{path}: cannot read the configuration ({error.strerror}); give the path of a YAML file"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise ValueError(
            f"{path}: found {type(tree).__name__} at the top; write `section:` with `key: value` lines below"
        )
    return tree


def _apply_override(tree: dict[str, Any], override: str) -> str:
    """Lay one override over the tree and return its key."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ValueError(f"override {_short(override)}: write key=value, for example training.steps=20")
    try:
        value = plain_yaml.load(text)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "not YAML"
        raise ValueError(
            f"override {_short(override)}: {_short(text)} is not a YAML value ({problem}); quote it"
        ) from None
    *parents, leaf = key.split(".")
    node = tree
    for name in parents:
        node = node.setdefault(name, {})
        if not isinstance(node, dict):
            raise ValueError(f"override {_short(override)}: {name} is not a section")
    node[leaf] = value
    return key


def _holds(tree: dict[str, Any], key: str) -> bool:
    """Whether a dotted key is in the tree."""
    node: Any = tree
    for name in key.split("."):
        if not isinstance(node, dict) or name not in node:
            return False
        node = node[name]
    return True


def _unknown_keys(tree: dict[str, Any], section: type[Section], prefix: str) -> Iterator[tuple[str, str]]:
    """Dotted keys that no section has, each with what to say of it."""
    for key, value in tree.items():
        if key not in section.model_fields:
            near = difflib.get_close_matches(str(key), section.model_fields, n=1, cutoff=0.5)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(section.model_fields)}"
            name = key if isinstance(key, str) and key.isprintable() and len(key) <= 80 else _short(key)
            yield f"{prefix}{key}", f"unknown key {prefix}{name}; {hint}"
            continue
        inner = section.model_fields[key].annotation
        if isinstance(inner, type) and issubclass(inner, Section) and isinstance(value, dict):
            yield from _unknown_keys(value, inner, f"{prefix}{key}.")


def _describe(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "configuration"
    if error["type"] == "missing":
        return f"{key} is missing; write `{key}: ...`"
    reason = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:  # about several sections: the reason names the keys
        return reason
    return f"{key}: found {_short(error['input'])}; {reason[0].lower()}{reason[1:]}"


def _short(value: Any) -> str:
    """`repr` of a user's value, cut where it is long."""
    return _repr.repr(value)
