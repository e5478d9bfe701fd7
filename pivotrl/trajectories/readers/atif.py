"""Harbor's Agent Trajectory Interchange Format, ATIF-v1.0 to v1.8, one JSON object a trajectory, checked by the `atif`
package's models (RFC 0001 of harbor-framework/harbor).

- A `user` step is a user message; an `agent` step is an assistant message with its reasoning and calls, and what it
  observed follows: a result that names its call is that call's; one that names none answers the step's next unanswered
  call, and where there is none it is the environment's reply, a user message.
- `system` steps before the first user or agent step are the system prompt. Later ones tell of the harness (a context
  was summarised, a workspace loaded); the model was not shown them, and they are left out.
- Steps that were copied from another trajectory (`is_copied_context`) or that no model wrote (`llm_call_count: 0`) are
  history and no turns.
- Tools are `agent.tool_definitions`; where there are none, and the trajectory has calls, those that the user gave, or
  inferred from the calls of all ATIF files of the run.
- Turns of embedded subagents are not read. The reward is the row's `extra.reward`; Harbor writes it beside the file.
- Terminus 2 without parsed calls writes its JSON answers as messages: `metadata.harness` says so to `terminal`.
"""

import json
import re
from typing import TYPE_CHECKING, Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.messages import normalise
from pivotrl.trajectories.metadata import small
from pivotrl.trajectories.readers.openai_chat import reward_of
from pivotrl.trajectories.records import Tool, Trajectory
from pivotrl.trajectories.tools import normalise_tools, tools_if_called

if TYPE_CHECKING:
    from atif import Step
    from atif import Trajectory as Document
    from atif.content import ContentPart

VERSION = re.compile(r"(ATIF-v)?1\.\d{1,3}")
HARNESSES = {"terminus-2": "terminus_2", "terminus-1": "terminus_1"}
"""An ATIF agent's name, and NeMo-Gym's name of the form of its answers."""


def is_row(row: dict[str, Any]) -> bool:
    return str(row.get("schema_version", "")).startswith("ATIF") or {"agent", "steps"} <= row.keys()


def read_row(row: dict[str, Any], index: int, place: Place, default_tools: list[Tool]) -> Trajectory:
    """One trajectory. Raises RowFault."""
    document = _document(row)
    messages: list[dict[str, Any]] = []
    context: list[int] = []
    begun = False
    for step in document.steps:
        begun = begun or step.source != "system"
        if step.source == "system" and begun:
            continue
        if step.source == "agent" and (step.is_copied_context or step.llm_call_count == 0):
            context.append(len(messages))
        messages.extend(_messages(step))
    agent, messages = document.agent, normalise(messages)
    told = {"agent": agent.name, "model_name": agent.model_name, "harness": HARNESSES.get(agent.name)}
    return Trajectory(
        id=document.trajectory_id or document.session_id or str(index),
        messages=messages,
        tools=normalise_tools(agent.tool_definitions) or tools_if_called(messages, default_tools),
        file=place.file,
        row=place.row,
        reward=reward_of(document.extra or {}),
        metadata=small({**told, **(document.extra or {})}),
        context=context,
    )


def _document(row: dict[str, Any]) -> "Document":
    from atif import Trajectory as Document
    from pydantic import ValidationError

    version = row.get("schema_version")
    if not isinstance(version, str) or not VERSION.fullmatch(version):
        raise RowFault("bad_atif", f"schema_version is {excerpt(version)}", "write ATIF-v1.0 to ATIF-v1.8")
    try:
        return Document.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the trajectory"
        raise RowFault(
            "bad_atif",
            f"{excerpt(where)} of {version}: {excerpt(first['msg'], 160)}",
            "write what ATIF-v1.8 admits there",
        ) from None


def _messages(step: "Step") -> list[dict[str, Any]]:
    """A step's message, and what was observed after it."""
    message: dict[str, Any] = {"role": step.source, "content": _content(step.message)}
    if step.source != "agent":
        return [message]
    message |= {"role": "assistant", "reasoning_content": step.reasoning_content}
    calls = step.tool_calls or []
    message["tool_calls"] = [
        {
            "id": call.tool_call_id,
            "function": {"name": call.function_name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in calls
    ]
    results = step.observation.results if step.observation else []
    named = {result.source_call_id for result in results}
    unanswered = [call.tool_call_id for call in calls if call.tool_call_id not in named]
    answers, replies = [], []
    for result in results:
        content = _content(result.content)
        if identity := result.source_call_id or (unanswered.pop(0) if unanswered else None):
            answers.append({"role": "tool", "tool_call_id": identity, "content": content})
        elif content:
            replies.append({"role": "user", "content": content})
    return [message, *answers, *replies]


def _content(content: "str | list[ContentPart] | None") -> str | list[dict[str, Any]]:
    if content is None or isinstance(content, str):
        return content or ""
    return [part.model_dump(exclude_none=True) for part in content]
