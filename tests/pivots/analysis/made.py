"""A selection's folder with known contents: trajectories, profiles of any rewards, and the files around them."""

import json
from pathlib import Path

from pivotrl.pivots.analysis.folder import Selection, open_selection
from pivotrl.pivots.select import make_profile
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.store import write_json, write_jsonl
from pivotrl.trajectories.turns import TurnReader
from tests.trajectories.rows import TOOLS, call, write_rows


def trajectory(identity: str, words: str, tools: list[str], reply: str = "done and well") -> dict:
    """A user's words, then one call of each tool, then a reply: len(tools) + 1 turns."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": words}]
    for number, tool in enumerate(tools):
        arguments = json.dumps({"key": f"{identity}-{number}"})
        messages.append({"role": "assistant", "content": None, "tool_calls": [call(tool, arguments, f"c{number}")]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} for {identity}"})
    return {"id": identity, "messages": [*messages, {"role": "assistant", "content": reply}], "tools": TOOLS}


def make_selection(
    folder: Path, rows: list[dict], rewards_of, heldout_share: float = 0.0, max_mean: float = 0.6, **header
) -> Selection:
    """Write what a finished selection leaves behind. `rewards_of(turn)` gives a turn's rewards, or None where it was
    rejected as too long."""
    (folder / "pivots").mkdir(parents=True)
    file = write_rows(folder / "t.jsonl", rows)
    turns = TurnReader(TrajectoriesConfig(files=[file], heldout_share=heldout_share), 0)
    profiles, rejected = [], []
    for turn in turns:
        if isinstance(turn, Turn) and turn.split == "train":
            rewards = rewards_of(turn)
            if rewards is None:
                rejected.append({"reason": "prompt_too_long", "id": turn.id})
            else:
                reasons = ["call_matches" if reward == 1 else "other_value" for reward in rewards]
                profiles.append(make_profile(turn.id, rewards, reasons, "policy", {"n": len(rewards)}).to_json())
    head = {
        "seed": 0,
        "model.path": "nowhere",
        "model.chat_template (hash)": "x",
        "trajectories.files": [file],
        "trajectories.heldout_share": heldout_share,
        "rollout.max_model_len": 512,
        "rollout.max_new_tokens": 48,
    }
    (folder / "pivots" / "progress").mkdir()
    write_json(folder / "pivots" / "progress" / "header.json", head | header)
    write_jsonl(folder / "pivots" / "profile.jsonl", profiles)
    write_jsonl(folder / "pivots" / "rejected.jsonl", rejected)
    write_json(
        folder / "pivots" / "summary.json", {"max_mean": max_mean, "samples": 8, "cost": {"sampled_tokens": 1234}}
    )
    return open_selection(folder)
