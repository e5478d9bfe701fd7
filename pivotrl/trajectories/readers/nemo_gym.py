"""NVIDIA NeMo-Gym pivot rows: `{"responses_create_params": {"input", "tools"}, "expected_action"}`, one ready-made
turn each. The four public Nemotron pivot sets (conversational, function calling, SWE, terminal) read alike:

- Terminal rows have `expected_answer` (text) in place of `expected_action`.
- The row's own `verifier` judges it, or the one that its `agent_ref` means (`readers/agents.py`); terminal rows without
  either are judged by `terminal`.
- Rows of one trajectory stay on one side of the split, and so do trajectories of one task where the row names it: the
  SWE set's `metadata.instance_id`, the terminal set's `task_name`.
- Profiles that a row brings along (`pass_rate`, `qwen_235b_info`) are of another policy than yours and are not used:
  difficulty does not carry over. `tool_choice` is ignored.
"""

from typing import Any

from pivotrl.trajectories.actions import check_action
from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.readers.agents import verifier_of_agent
from pivotrl.trajectories.readers.openai_chat import reward_of, verifier_of
from pivotrl.trajectories.records import Tool, Trajectory
from pivotrl.trajectories.tools import normalise_tools


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One pivot row. Raises RowFault."""
    request = row.get("responses_create_params")
    if not isinstance(request, dict):
        raise RowFault(
            "no_messages",
            f"keys {excerpt(sorted(row))}",
            'write {"responses_create_params": {"input": [...]}, "expected_action"}',
        )
    metadata = row.get("metadata") if isinstance(row.get("metadata"), dict) else {}
    names = (row.get("trajectory_id"), metadata.get("source_trajectory_uid"), row.get("uuid"), index)
    task = next((name for name in (metadata.get("instance_id"), row.get("task_name")) if name), None)
    verifier = verifier_of(row) or verifier_of_agent(row.get("agent_ref"))
    if row.get("expected_action") is None and isinstance(row.get("expected_answer"), str):
        expert = check_action({"type": "message", "content": row["expected_answer"]})
        verifier = verifier or {"name": "terminal"}
    elif "expected_action" in row:
        expert = check_action(row["expected_action"])
    else:
        raise RowFault(
            "no_assistant_turn",
            "neither expected_action nor expected_answer",
            "write the expert's action as expected_action",
        )
    return Trajectory(
        id=str(next(name for name in names if name is not None)),
        messages=normalise(chat_messages(request)),
        tools=normalise_tools(request.get("tools")) or default_tools,
        file=place.file,
        row=place.row,
        reward=reward_of(row),
        group=f"task {task}" if task else "",
        expert=expert,
        verifier=verifier,
        metadata=small(metadata),
    )


def chat_messages(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The request's Responses-API items as chat messages.

    An assistant's reasoning, text and calls that follow each other become one message, in that order; reasoning that
    leads to nothing is left out. Raises RowFault.
    """
    items = request.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise RowFault("no_messages", f"input is {excerpt(items)}", "write a list of Responses-API items")
    messages: list[dict[str, Any]] = []
    if request.get("instructions"):
        messages.append({"role": "system", "content": request["instructions"]})
    draft: dict[str, Any] = {}

    def flush() -> None:
        if "content" in draft or "tool_calls" in draft:
            messages.append({"role": "assistant", "content": None, **draft})
        draft.clear()

    for index, item in enumerate(items):
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind == "reasoning":
            if "content" in draft or "tool_calls" in draft:
                flush()
            draft["reasoning_content"] = draft.get("reasoning_content", "") + _reasoning(item)
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            identity = item.get("call_id") or item.get("id")
            draft.setdefault("tool_calls", []).append({"id": identity, "function": function})
        elif kind == "message" and item.get("role") == "assistant":
            if "content" in draft or "tool_calls" in draft:
                flush()
            draft["content"] = item.get("content")
        elif kind == "message":
            flush()
            messages.append({"role": item.get("role"), "content": item.get("content")})
        elif kind == "function_call_output":
            flush()
            result = {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
            messages.append(result | {"name": item.get("name")})
        else:
            raise RowFault(
                "bad_input_item",
                f"input[{index}] is {excerpt(item)}",
                "write items of type message, reasoning, function_call or function_call_output",
            )
    flush()
    return messages


def _reasoning(item: dict[str, Any]) -> str:
    parts = item.get("content") or item.get("summary") or []
    if isinstance(parts, str):
        return parts
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts] if isinstance(parts, list) else []
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in texts):
        raise RowFault(
            "bad_input_item", f"reasoning is {excerpt(parts)}", 'write a list of {"type": "reasoning_text", "text"}'
        )
    return "".join(texts)
