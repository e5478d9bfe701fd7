"""Where a policy's weights lie: a Hugging Face folder, a run's newest checkpoint, or the one of a step."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pivotrl.policy.architecture import Architecture, first_difference
from pivotrl.policy.checkpoint_rotation import complete, name_of, newest, step_of

BASE = "base"
"""Name of the run's own `model.path`, which everything is compared against."""
_STEP = re.compile(r"(?:(?P<folder>.*):)?step=(?P<step>\d+)")
_NAME = re.compile(r"[\w.+-][\w.+ -]{0,39}")


@dataclass(frozen=True, slots=True)
class Source:
    kind: Literal["huggingface", "checkpoint"]
    path: Path


def find_source(text: str, output: str) -> Source:
    """What a user calls a policy.

    Args:
        text: a Hugging Face folder; a run's folder (its newest checkpoint); a checkpoint's folder; `FOLDER:step=N`, or
            `step=N` of the run in `output`.
        output: the run's own folder.

    Raises:
        ValueError: there is no such policy; the message says what is there.
    """
    match = _STEP.fullmatch(text)
    if match:
        folder = Path(match["folder"] or output) / "checkpoints"
        target = folder / name_of(int(match["step"]))
        if not target.is_dir():
            there = ", ".join(str(step_of(path)) for path in complete(folder)) or "none"
            raise ValueError(f"{text}: there is no {target}; steps with a checkpoint: {there}")
        return Source("checkpoint", target)
    path = Path(text)
    if not path.is_dir():
        raise ValueError(f"{text}: no such folder; give a Hugging Face folder, a run's folder, or FOLDER:step=N")
    if (path / "config.json").is_file():
        return Source("huggingface", path)
    if (path / ".metadata").is_file():
        return Source("checkpoint", path)
    if (path / "checkpoints").is_dir():
        found = newest(path / "checkpoints")
        if found is None:
            raise ValueError(f"{text}: this run has no checkpoint yet; wait for its first, or give another policy")
        return Source("checkpoint", found)
    raise ValueError(
        f"{text}: neither a Hugging Face folder (config.json), nor a checkpoint (.metadata), nor a run's folder "
        "(checkpoints/); give one of these"
    )


def named_sources(given: list[str], output: str) -> dict[str, tuple[str, Source]]:
    """`NAME=SOURCE` texts of a command line -> name -> (the source's text, what it is).

    Raises:
        ValueError: a text has no name, a name is there twice or is `base`, or there is no such policy.
    """
    found: dict[str, tuple[str, Source]] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not _NAME.fullmatch(name) or not text:
            raise ValueError(
                f"--policy {one}: write NAME=SOURCE, for example late=runs/mine or early=runs/mine:step=20"
            )
        if name == BASE or name in found:
            why = "it is the name of model.path" if name == BASE else "it is there already"
            raise ValueError(f"--policy {one}: call it something else than {name}: {why}")
        found[name] = (text, find_source(text, output))
    return found


def check_architecture(source: Source, arch: Architecture) -> None:
    """Stop where a Hugging Face folder is another model than the run's. What a checkpoint holds is seen when it is
    read.

    Raises:
        ValueError: it names the first difference.
    """
    if source.kind == "huggingface":
        found = Architecture.from_hf(source.path)
        if found != arch:
            raise ValueError(
                f"{source.path}: another architecture than model.path's: {first_difference(found, arch)}; evaluate it "
                "with a configuration of its own"
            )
