"""The verifiers by name and preset, imported when they are asked for."""

import difflib
import importlib
from typing import Any

from pivotrl.verifiers.base import Preset, Verifier, VerifierConfig
from pivotrl.verifiers.own import build_own

VERIFIERS: dict[str, dict[Preset, str]] = {
    "tool_call": {"nemo_gym": "tool_call:ToolCallVerifier", "robust": "robust.verifier:RobustVerifier"},
    "search": {"nemo_gym": "search:SearchVerifier", "robust": "search:RobustSearchVerifier"},
    "swe_pivot": {"nemo_gym": "swe_pivot:SwePivotVerifier", "robust": "code.swe:SweVerifier"},
    "terminal": {"nemo_gym": "terminal:TerminalVerifier", "robust": "shell.terminal:TerminalFunctionalVerifier"},
    "name_only": {"nemo_gym": "name_only:NameOnlyVerifier", "robust": "name_only:RobustNameOnlyVerifier"},
    "exact": {"robust": "exact:ExactVerifier"},
    "swe": {"robust": "code.swe:SweVerifier"},
    "terminal_functional": {"robust": "shell.terminal:TerminalFunctionalVerifier"},
    "shell": {"robust": "shell.verifier:ShellVerifier"},
    "code_edit": {"robust": "code.verifier:CodeEditVerifier"},
    "search_query": {"robust": "search_query:SearchQueryVerifier"},
    "sql": {"robust": "sql:SqlVerifier"},
    "number": {"robust": "number:NumberVerifier"},
    "json": {"robust": "json_value:JsonVerifier"},
    "text": {"robust": "text:TextVerifier"},
    "judge": {"robust": "judge.verifier:JudgeVerifier"},
}
"""`module:class` below pivotrl.verifiers, for each preset that a verifier has; the first is its default."""


def build_verifier(config: VerifierConfig) -> Verifier:
    """The verifier that `config` names.

    Raises ValueError for an unknown name, a preset that it does not have, a parameter that it does not know, or a class
    of the user's that cannot be used.
    """
    if ":" in config.name or config.name.endswith(".py"):
        return build_own(config.name, config.params)
    presets = VERIFIERS.get(config.name)
    if presets is None:
        near = difflib.get_close_matches(config.name, VERIFIERS, n=1, cutoff=0.6)
        raise ValueError(
            f"verifier.name: {config.name!r} is not a verifier; "
            + (f"did you mean {near[0]}? " if near else "")
            + f"write one of {', '.join(VERIFIERS)}, or your own as my_package.module:MyVerifier"
        )
    preset = config.preset or next(iter(presets))
    if preset not in presets:
        raise ValueError(
            f"verifier.preset: {config.name} has no preset {preset!r}; write {' or '.join(presets)}, or leave it out"
        )
    module, name = presets[preset].split(":")
    return getattr(importlib.import_module(f"pivotrl.verifiers.{module}"), name)(config.params)


def row_config(run: VerifierConfig, row: dict[str, Any]) -> VerifierConfig:
    """The section that a row's own `verifier` (`name`, `preset`) asks for, laid over the run's.

    A row may name any verifier of the table, and the user's own only where the run names it: data never decides what
    is imported. A row that names another verifier or preset than the run's gets that one's default parameters. Raises
    ValueError.
    """
    name, preset = row.get("name", run.name), row.get("preset")
    if not isinstance(name, str) or (name != run.name and name not in VERIFIERS):
        raise ValueError(f"verifier.name: {name!r} in a row is not a verifier; write one of {', '.join(VERIFIERS)}")
    if preset not in (None, "nemo_gym", "robust"):
        raise ValueError(f"verifier.preset: {preset!r} in a row; write nemo_gym or robust, or leave it out")
    if name == run.name and preset in (None, _preset_of(run)):
        return run
    if preset is None:
        preset = run.preset if run.preset in VERIFIERS[name] else None
    return run.model_copy(update={"name": name, "preset": preset, "params": {}})


def _preset_of(config: VerifierConfig) -> Preset | None:
    """The preset that a section means; None for a class of the user's."""
    return config.preset or next(iter(VERIFIERS.get(config.name, ())), None)
