"""Trajectories as rows to imitate: the ids that a model would see and write, and which of them the assistant wrote.

A policy acts behind the prompt that the chat template makes of its history, so that is where its turn is trained. Where
the next turn's prompt goes on with this turn's ids, both are in one row, and as a rule a whole trajectory is one. Some
templates render history otherwise than it was written (they drop old thoughts): there the next turn begins a row.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from pivotrl.config import RunConfig
from pivotrl.json_object import JsonObject
from pivotrl.policy.packing import Sample
from pivotrl.trajectories.records import Message, Rejected, Tool, Trajectory, Turn
from pivotrl.trajectories.template import ChatTemplate
from pivotrl.trajectories.turns import TurnReader


@dataclass(slots=True)
class Row:
    """Token ids, and the stretches of them that are targets."""

    ids: array = field(default_factory=lambda: array("i"))
    spans: list[tuple[int, int]] = field(default_factory=list)
    """[start, end) of each turn's targets, rising."""

    def takes(self, prompt: list[int]) -> bool:
        """Whether a turn behind this prompt can be laid behind the last one."""
        return bool(self.ids) and prompt[: len(self.ids)] == self.ids.tolist()

    def add(self, prompt: list[int], action: list[int]) -> None:
        self.ids.extend(prompt[len(self.ids) :])
        self.spans.append((len(self.ids), len(self.ids) + len(action)))
        self.ids.extend(action)

    def content(self) -> list[int]:
        """What a checkpoint remembers of it: its ids, and where the targets are."""
        return [*self.ids, *chain.from_iterable(self.spans)]

    def sample(self) -> Sample:
        """For `Policy.imitate`: the prompt of the first turn, and all behind it as the response."""
        first = self.spans[0][0]
        mask = [False] * (len(self.ids) - first)
        for start, end in self.spans:
            mask[start - first : end - first] = [True] * (end - start)
        ids = self.ids.tolist()
        return Sample(ids[:first], ids[first:], mask=mask)


@dataclass(slots=True)
class Imitated:
    """What of the trajectories can be imitated."""

    trajectories: dict[int, list[Row]] = field(default_factory=dict)
    """Number of a trajectory of the training split -> its rows, where it has any."""
    turns: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Turns that are no targets, by reason: `too_long`, `refused` (by the template), `other_prompt` (the template
    writes the turn with another beginning than the prompt's), `no_end` (it ends no turn with a stop token)."""

    @classmethod
    def merge(cls, parts: Sequence["Imitated"]) -> "Imitated":
        """The parts as one, its trajectories in the order of their numbers, whoever read them."""
        whole = cls()
        for part in parts:
            whole.trajectories |= part.trajectories
            whole.turns += part.turns
            whole.left_out += part.left_out
        whole.trajectories = dict(sorted(whole.trajectories.items()))
        return whole


class Imitation:
    """Makes rows of trajectories with one chat template."""

    def __init__(self, template: ChatTemplate, stop_ids: Set[int], longest: int) -> None:
        """
        Args:
            stop_ids: tokens that end a turn.
            longest: tokens of a prompt with its turn, at most; longer turns are left out.
        """
        self._template, self._stop_ids, self._longest = template, stop_ids, longest

    def lay(self, number: int, turns: Iterator[tuple[list[Message], Message, list[Tool]]], found: Imitated) -> None:
        """The rows of one trajectory into `found`; a turn is its history, the assistant's message, and the tools."""
        rows: list[Row] = []
        for history, message, tools in turns:
            try:
                prompt, action = self._encode(history, message, tools)
                if len(prompt) + len(action) > self._longest:
                    raise _LeftOut("too_long")
            except _LeftOut as why:
                found.left_out[str(why)] += 1
                continue
            if not rows or not rows[-1].takes(prompt):
                rows.append(Row())
            rows[-1].add(prompt, action)
            found.turns += 1
        if rows:
            found.trajectories[number] = rows

    def _encode(self, history: list[Message], message: Message, tools: list[Tool]) -> tuple[list[int], list[int]]:
        """The prompt's ids, and those that the model would sample there to write the message: its text behind the
        prompt's, up to and with the first stop token."""
        try:
            prompt = self._template.encode(history, tools)
            before = self._template.render(history, tools)
            after = self._template.render([*history, message], tools, reply=False)
        except ValueError:
            raise _LeftOut("refused") from None
        if not after.startswith(before):
            raise _LeftOut("other_prompt")
        written = self._template.tokenizer.encode(after[len(before) :], add_special_tokens=False)
        end = next((place for place, token in enumerate(written) if token in self._stop_ids), None)
        if end is None:
            raise _LeftOut("no_end")
        return prompt, written[: end + 1]


class _LeftOut(Exception):
    """The reason as a key of `Imitated.left_out`."""


def read(config: RunConfig, template: ChatTemplate, part: int = 0, parts: int = 1) -> Imitated:
    """The rows of the training split of `trajectories.files`: of every `parts`-th trajectory, from number `part`.

    Raises:
        ValueError: a file that cannot be used, or more bad rows than `pivots.max_bad_share`.
    """
    reader, found = TurnReader(config.trajectories, config.seed), Imitated()
    imitation = Imitation(template, stop_ids(config, template), config.rollout.max_model_len)
    number = 0
    for trajectory in reader.read_trajectories():
        if isinstance(trajectory, Rejected):
            continue
        turns = list(reader.turns_of(trajectory))
        reader.bad_rows += any(isinstance(turn, Rejected) for turn in turns)
        usable = [turn for turn in turns if isinstance(turn, Turn) and turn.split == "train"]
        if usable:
            if number % parts == part:
                imitation.lay(number, ((t.messages, written(trajectory, t), t.tools) for t in usable), found)
            number += 1
    reader.check_bad_share(config.pivots.max_bad_share)
    return found


def written(trajectory: Trajectory, turn: Turn) -> Message:
    """The assistant's message of a turn; of a row that is one turn, made of the expert's action."""
    if not trajectory.expert:
        return trajectory.messages[len(turn.messages)]
    action = trajectory.expert
    if action["type"] == "message":
        return {"role": "assistant", "content": action["content"]}
    calls = action["calls"] if action["type"] == "function_call_batch" else [action]
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": f"call_{n}", "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for n, c in enumerate(calls)
        ],
    }


def stop_ids(config: RunConfig, template: ChatTemplate) -> set[int]:
    """The tokens at which the engine ends a turn: the tokenizer's end token, and those of generation_config.json.

    Raises ValueError where there are none.
    """
    file = Path(config.model.path) / "generation_config.json"
    named = JsonObject(file).values.get("eos_token_id") if file.is_file() else None
    ids = {*(named if isinstance(named, list) else [named]), template.tokenizer.eos_token_id} - {None}
    if not ids:
        raise ValueError(f"model.path: {config.model.path} names no end token; set eos_token in tokenizer_config.json")
    return ids
