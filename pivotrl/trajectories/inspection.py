"""What a user's files hold, told without a model: counts, tools, lengths and bad rows."""

from collections import Counter
from typing import Any

from pivotrl.trajectories.actions import action_kind, calls_of
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.readers.detect import detect_format
from pivotrl.trajectories.records import Message, Rejected, Turn
from pivotrl.trajectories.turns import TurnReader

SMALLEST_BIN = 1024
"""Characters; each following bin of the histogram is twice as wide."""
REJECTED_SHOWN = 20


def inspect(config: TrajectoriesConfig, seed: int) -> dict[str, Any]:
    """One pass over the files, as JSON values. Raises ValueError for a file that cannot be used."""
    reader = TurnReader(config, seed)
    counts: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    verifiers: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    rejected: list[dict[str, Any]] = []
    formats = {path: detect_format(path) if config.format == "auto" else config.format for path in config.files}
    for trajectory in reader.read_trajectories():
        if isinstance(trajectory, Rejected):
            rejected.append(trajectory.to_json())
            continue
        counts["messages"] += len(trajectory.messages)
        faults = 0
        for turn in reader.turns_of(trajectory):
            if isinstance(turn, Turn):
                calls = calls_of(turn.expert)
                counts["calls"] += len(calls)
                counts["message_turns"] += not calls
                actions[action_kind(turn.expert)] += 1
                splits[turn.split] += 1
                verifiers[turn.verifier.get("name", "the run's")] += 1
                lengths[_bin(characters(turn.messages))] += 1
            else:
                faults += 1
                rejected.append(turn.to_json())
        reader.bad_rows += faults > 0
    return {
        "files": formats,
        "rows": reader.rows,
        "trajectories": reader.trajectories,
        "filtered": dict(reader.filtered),
        "assistant_turns": reader.turns,
        "calls": counts["calls"],
        "message_turns": counts["message_turns"],
        "messages": counts["messages"],
        "splits": dict(sorted(splits.items())),
        "verifiers": dict(verifiers.most_common()),
        "per_tool": dict(actions.most_common()),
        "prompt_characters": {str(top): lengths[top] for top in sorted(lengths)},
        "bad_rows": reader.bad_rows,
        "rejected_reasons": dict(reader.rejected.most_common()),
        "rejected": rejected[:REJECTED_SHOWN],
    }


def characters(messages: list[Message]) -> int:
    """Characters of the contents and calls of a history: a length that needs no tokenizer (about 4 make a token)."""
    total = 0
    for message in messages:
        total += len(message["content"])
        for call in message.get("tool_calls", ()):
            total += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return total


def describe(found: dict[str, Any]) -> str:
    """The inspection as text for a terminal."""
    lines = [f"{path}: {name}" for path, name in found["files"].items()]
    keys = ("rows", "trajectories", "assistant_turns", "calls", "message_turns", "messages", "bad_rows")
    lines += [f"{key.replace('_', ' '):18}{found[key]:>9,}" for key in keys]
    lines += [f"{'left out: ' + reason:18}{count:>9,}" for reason, count in found["filtered"].items()]
    lines += [f"{'turns in ' + name:18}{count:>9,}" for name, count in found["splits"].items()]
    if set(found["verifiers"]) - {"the run's"}:
        lines += _bars("verifier that the row names", found["verifiers"])
    lines += _bars("expert's action", found["per_tool"])
    tops = {f"<= {int(top):,}": count for top, count in found["prompt_characters"].items()}
    lines += _bars("characters before the turn", tops)
    if found["bad_rows"]:
        lines += _bars("bad rows and turns", found["rejected_reasons"])
        lines += [f"  {Rejected.from_json(row)}" for row in found["rejected"]]
    return "\n".join(lines)


def _bars(title: str, counts: dict[str, int], width: int = 40) -> list[str]:
    largest = max(counts.values(), default=1)
    rows = [f"  {name[:32]:34}{count:>7,}  {'#' * round(width * count / largest)}" for name, count in counts.items()]
    return ["", title, *rows]


def _bin(length: int) -> int:
    """The smallest power-of-two multiple of SMALLEST_BIN that holds `length`."""
    top = SMALLEST_BIN
    while top < length:
        top *= 2
    return top
