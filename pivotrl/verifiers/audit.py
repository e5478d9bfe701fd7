"""Is a verifier any good? Probes made from the expert's own turns, whose rewards are known beforehand: the expert's
action earns 1, and everything else 0, or where a probe holds some of the expert's calls at most their F1 (a verifier
may grade by it): 2 shared / (the expert's + the probe's).

Nothing is drawn at random: the same rows give the same probes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from pivotrl.trajectories.actions import action_kind, calls_of
from pivotrl.trajectories.ids import stable_hash
from pivotrl.trajectories.records import Action, Tool
from pivotrl.verifiers.attempt import Attempt, Item
from pivotrl.verifiers.base import Verdict
from pivotrl.verifiers.judges import Judges, judged
from pivotrl.verifiers.rows import ScoreRow

PROBES = {
    "expert": "the expert's own action",
    "other_row": "the action of another row",
    "same_tool": "the action of another row that calls the same tool, or is a message too",
    "empty": "no output, an empty message, a message of white space",
    "message_only": "a message that promises the action",
    "no_arguments": "the expert's tools, called with {}",
    "all_tools": "every tool called once, the expert's among them",
    "surplus": "the expert's action before, and among, 20 further calls",
    "prompt_copy": "the last message of the history, said again",
    "half_closed": "the expert's call, in a completion that never closes its <tool_call>",
}
SURPLUS_CALLS = 20
PROMISE = "I will do that now."
MOST_KINDS, MOST_OF_A_KIND = 1000, 64
"""Tools whose actions are kept to be swapped, and actions of each: memory stays flat however many rows there are."""
BROKEN = frozenset({"verifier_error", "crashed", "time_limit"})
"""Reasons that no probe may get, whatever its reward."""


class Probe(NamedTuple):
    """One output whose reward is known."""

    name: str
    items: list[Item]
    allowed: float
    """The reward that the expert's action earns, and that another one earns at most."""
    text: str | None = None
    """The completion that the items were found in, where the probe has one."""

    def holds(self, verdict: Verdict) -> bool:
        right = verdict.reward == 1 if self.name == "expert" else verdict.reward <= self.allowed + 1e-9
        return right and verdict.reason not in BROKEN


class Donors:
    """Expert actions of a file, to be put where they do not belong."""

    def __init__(self, actions: Iterable[Action]):
        """One pass over the actions; of each kind, those with the smallest hashes are kept, each once."""
        kept: dict[str, dict[int, tuple[str, Action]]] = {}
        for action in actions:
            kind = action_kind(action)
            if kind not in kept and len(kept) == MOST_KINDS:
                continue
            form = normal_form(action)
            mine = kept.setdefault(kind, {})
            mine[stable_hash(form)] = (form, action)
            if len(mine) > MOST_OF_A_KIND:
                del mine[max(mine)]
        self._kinds = {kind: [mine[key] for key in sorted(mine)] for kind, mine in sorted(kept.items())}
        self._all = [entry for entries in self._kinds.values() for entry in entries]
        self.tool_names = sorted({call["name"] for _, action in self._all for call in calls_of(action)})

    def same_kind(self, action: Action, seed: object) -> Action | None:
        """Another action that calls the same tool, or is a message as this one is; None where there is none."""
        return _other(self._kinds.get(action_kind(action), []), action, seed)

    def any_kind(self, action: Action, seed: object) -> Action | None:
        """Another action of any kind; None where there is none."""
        return _other(self._all, action, seed)


def audit(rows: Iterable[ScoreRow], donors: Donors, judges: Judges) -> Iterator[tuple[Probe, ScoreRow, Verdict]]:
    """Every probe of every row with its verdict, in order."""
    probes = ((probe, _attempted(row, probe)) for row in rows for probe in probes_of(row.attempt, row.id, donors))
    return judged(probes, judges)


def probes_of(attempt: Attempt, seed: object, donors: Donors) -> Iterator[Probe]:
    """The probes that can be made of one turn; those that would be the expert's action itself are left out."""
    expert = items_of(attempt.expert)
    form, calls = _form_of_items(expert), _call_forms(expert)
    yield Probe("expert", expert, 1.0)
    for name, items in _candidates(attempt, seed, donors):
        if _form_of_items(items) != form:
            given = _call_forms(items)
            shared = (calls & given).total()
            yield Probe(name, items, 2 * shared / max(calls.total() + given.total(), 1))
    if calls:
        yield Probe("half_closed", expert, 0.0, _half_closed(expert))


def _candidates(attempt: Attempt, seed: object, donors: Donors) -> Iterator[tuple[str, list[Item]]]:
    expert, calls = attempt.expert, calls_of(attempt.expert)
    if (action := donors.any_kind(expert, seed)) is not None:
        yield "other_row", items_of(action)
    if (action := donors.same_kind(expert, seed)) is not None:
        yield "same_tool", items_of(action)
    yield "empty", []
    yield "empty", [_message("")]
    yield "empty", [_message(" \n")]
    yield "message_only", [_message(PROMISE)]
    if not all(_says_nothing(call, attempt.tools) for call in calls):
        yield "no_arguments", [_call(call["name"], "{}") for call in calls]
    names = _tool_names(attempt) or donors.tool_names
    if names or calls:
        yield "all_tools", _all_tools(calls, names)
        others = _surplus(attempt.expert, names, seed, donors)
        yield "surplus", [*items_of(expert), *others]  # for verifiers that look at the first call
        yield "surplus", [*others[: SURPLUS_CALLS // 2], *items_of(expert), *others[SURPLUS_CALLS // 2 :]]
    if attempt.messages and attempt.messages[-1]["content"].strip():
        yield "prompt_copy", [_message(attempt.messages[-1]["content"])]


def _half_closed(calls: list[Item]) -> str:
    """Hermes's markup of calls, the last one without its end: vLLM's parser finds the call all the same."""
    bodies = [f'{{"name": {json.dumps(call["name"])}, "arguments": {call["arguments"]}}}' for call in calls]
    return "\n</tool_call>\n".join(f"<tool_call>\n{body}" for body in bodies)


def _says_nothing(call: Action, tools: list[Tool]) -> bool:
    """Whether a call means the same without its arguments: it has none, or gives each the default of its schema."""
    functions = (tool["function"] for tool in tools if tool["function"]["name"] == call["name"])
    schema = next(functions, {}).get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    properties = properties if isinstance(properties, dict) else {}
    arguments = json.loads(call["arguments"])
    known = {key: properties[key] for key in arguments if isinstance(properties.get(key), dict)}
    return all(key in known and known[key].get("default", _NONE) == value for key, value in arguments.items())


_NONE = object()


def _all_tools(calls: list[Action], names: list[str]) -> list[Item]:
    """One call of each tool, with the expert's arguments where the expert calls it."""
    arguments = {call["name"]: call["arguments"] for call in reversed(calls)}
    return [_call(name, arguments.get(name, "{}")) for name in sorted({*names, *arguments})]


def _surplus(expert: Action, names: list[str], seed: object, donors: Donors) -> list[Item]:
    """Calls of other rows, or of any tool where there are no other rows."""
    others: list[Item] = []
    for index in range(SURPLUS_CALLS):
        donor = donors.any_kind(expert, f"{seed} {index}")
        calls = items_of(donor) if donor is not None and donor["type"] != "message" else []
        name = names[index % len(names)] if names else expert.get("name", "tool")
        others.append(calls[0] if calls else _call(name, json.dumps({"surplus": index})))
    return others


def normal_form(action: Action) -> str:
    """A string that is equal for actions that may well be equivalent, so that neither is a probe of the other: those
    with the same words, whatever their order in a call, their case, punctuation and white space."""
    return _form_of_items(items_of(action))


def _form_of_items(items: list[Item]) -> str:
    calls = [item for item in items if item["type"] == "function_call"]
    if not calls:
        return " ".join(" ".join(_words(item["content"])) or item["content"].strip() for item in items)
    return "\n".join(sorted(f"{call['name']} {sorted(_words(_canonical(call)))}" for call in calls))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _canonical(call: Item) -> str:
    return json.dumps(json.loads(call["arguments"]), ensure_ascii=False, sort_keys=True)


def _call_forms(items: list[Item]) -> Counter[str]:
    return Counter(f"{item['name']} {_canonical(item)}" for item in items if item["type"] == "function_call")


def items_of(action: Action) -> list[Item]:
    """An action as a model's output items."""
    return [action] if action["type"] == "message" else calls_of(action)


def _other(entries: list[tuple[str, Action]], action: Action, seed: object) -> Action | None:
    form = normal_form(action)
    start = stable_hash("donor", seed)
    found = (entries[(start + step) % len(entries)] for step in range(min(2, len(entries))))
    return next((other for other_form, other in found if other_form != form), None)


def _attempted(row: ScoreRow, probe: Probe) -> ScoreRow:
    return replace(row, attempt=replace(row.attempt, items=probe.items, text=probe.text))


def _tool_names(attempt: Attempt) -> list[str]:
    return [tool["function"]["name"] for tool in attempt.tools]


def _message(text: str) -> Item:
    return {"type": "message", "content": text}


def _call(name: str, arguments: str) -> Item:
    return {"type": "function_call", "name": name, "arguments": arguments}
