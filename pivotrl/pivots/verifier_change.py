"""A verifier that changed under a run: since its pivots were profiled, or since its checkpoint was written.

It may be meant, so it is said and nothing is refused.
"""

import json
from pathlib import Path
from typing import Any

from pivotrl.config import RunConfig
from pivotrl.verifiers.registry import VERIFIERS


def warnings(config: RunConfig, checkpoint: Path | None) -> list[str]:
    """What a run has to say before its first step; `checkpoint` is the one that it continues from, if any."""
    said = [since_selection(config, Path(config.output) / "pivots")]
    said += [since_checkpoint(config, checkpoint)] if checkpoint else []
    return [line for line in said if line]


def since_selection(config: RunConfig, folder: str | Path) -> str:
    """One line where the run's verifier is not the one that the selection in `folder` was profiled with; empty where
    it is, and where `summary.json` does not tell."""
    then = _verifier_in(Path(folder) / "summary.json", "verifier")
    changed = _changes(then, config) if then else []
    if not changed:
        return ""
    return (
        f"warning: the pivots in {folder} were profiled with another verifier than the run's: {', '.join(changed)}; "
        "which turns are mixed may differ: set it back, or select the pivots anew into another folder"
    )


def since_checkpoint(config: RunConfig, target: str | Path) -> str:
    """One line where `verifier.params` has keys that the checkpoint in `target` was trained without, or lacks some;
    empty otherwise. What is set in both and differs is said by `policy.checkpoint.resume`, as any setting's change."""
    then = _verifier_in(Path(target) / "run.json", "config", "verifier")
    if not then or _keys(then.get("params") or {}) == _keys(_verifier_of(config)["params"]):
        return ""
    return f"warning: continuing {target} with other rewards than it was trained with: {_params(then, config)}"


def _changes(then: dict[str, Any], config: RunConfig) -> list[str]:
    now = _verifier_of(config)
    changed = []
    if then.get("name") != now["name"]:
        changed.append(f"verifier.name was {then.get('name')!r}, is {now['name']!r}")
    presets = [section.get("preset") or next(iter(VERIFIERS.get(section["name"], ())), None) for section in (then, now)]
    if presets[0] != presets[1]:
        changed.append(f"verifier.preset was {presets[0]!r}, is {presets[1]!r}")
    if (then.get("params") or {}) != now["params"]:
        changed.append(_params(then, config))
    return changed


def _params(then: dict[str, Any], config: RunConfig) -> str:
    return f"verifier.params was {then.get('params') or {}!r}, is {_verifier_of(config)['params']!r}"


def _verifier_of(config: RunConfig) -> dict[str, Any]:
    """The run's section as its JSON would be read back."""
    return json.loads(json.dumps(config.verifier.model_dump(mode="json")))


def _verifier_in(path: Path, *keys: str) -> dict[str, Any]:
    """A section `verifier` in a JSON file; empty where there is none."""
    try:
        found = json.loads(path.read_bytes())
        for key in keys:
            found = found[key]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("name"), str) else {}


def _keys(tree: dict[str, Any], prefix: str = "") -> set[str]:
    """Dotted keys of a tree's leaves."""
    found: set[str] = set()
    for key, value in tree.items():
        found |= _keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}"}
    return found
