"""The table of parameters in docs/verifiers.md, written from the verifiers themselves:

python -m pivotrl.verifiers.reference docs/verifiers.md
"""

import functools
import json
import sys
from pathlib import Path

from pivotrl.schema import Section
from pivotrl.verifiers.base import VerifierConfig
from pivotrl.verifiers.params import Overridable
from pivotrl.verifiers.registry import VERIFIERS, build_verifier

BEGIN = "<!-- parameters: written by python -m pivotrl.verifiers.reference docs/verifiers.md -->"
END = "<!-- end of parameters -->"


NEEDED = {"judge": {"endpoint": "engine"}}
"""Parameters without a default."""


def parameters(name: str, preset: str) -> Section:
    """The parameters of a verifier of the table, at their defaults."""
    config = VerifierConfig(name=name, preset=preset, params=NEEDED.get(name, {}))
    held = vars(build_verifier(config)).values()
    (found,) = [value for value in held if isinstance(value, Overridable)]
    return found.default


@functools.cache
def related(kind: type[Section]) -> dict[str, str]:
    """The parameters that other presets of a verifier have, where `kind` holds one preset's: the parameter's name to
    `tool_call with preset robust`. Empty for a class of the user's."""
    found: dict[str, str] = {}
    for name, presets in VERIFIERS.items():
        kinds = {preset: type(parameters(name, preset)) for preset in presets} if len(presets) > 1 else {}
        if kind in kinds.values():
            for preset, other in kinds.items():
                for field in [field for field in other.model_fields if field not in kind.model_fields]:
                    found.setdefault(field, f"{name} with preset {preset}")
    return found


def parameter_table() -> str:
    """Markdown rows for each parameter: who has it, its default, what it does. Verifiers that have it alike share a
    row."""
    owners: dict[tuple[str, str, str], list[str]] = {}
    for name, presets in VERIFIERS.items():
        for preset in presets:
            section = parameters(name, preset)
            title = f"`{name}`" if len(presets) == 1 else f"`{name}` {preset}"
            for field, about in type(section).model_fields.items():
                default = "`" + json.dumps(getattr(section, field), default=str) + "`"
                default = "needed" if about.is_required() else default
                meaning = " ".join((about.description or "").split()).replace("|", "\\|")
                owners.setdefault((field, default, meaning), []).append(title)
    head = ["| parameter | default | of | what it does |", "|---|---|---|---|"]
    rows = [
        f"| `{field}` | {default} | {', '.join(titles)} | {meaning} |"
        for (field, default, meaning), titles in owners.items()
    ]
    return "\n".join([*head, *rows])


def with_table(page: str) -> str:
    """The page with its table written anew. Raises ValueError where it has no place for one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table; write {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{parameter_table()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
