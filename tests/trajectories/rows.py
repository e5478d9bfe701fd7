"""Small rows of every format, good and bad, that several tests use."""

import json
from pathlib import Path

TOOLS = [{"type": "function", "function": {"name": "get_order", "parameters": {"type": "object", "properties": {}}}}]


def call(name: str = "get_order", arguments: str = '{"order_id": "A-1"}', identity: str = "c1") -> dict:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_row(identity: str = "t1", **more: object) -> dict:
    """Two assistant turns: a call and a message."""
    return {
        "id": identity,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where is A-1?"},
            {"role": "assistant", "content": None, "tool_calls": [call()]},
            {"role": "tool", "tool_call_id": "c1", "content": "sent"},
            {"role": "assistant", "content": "It is on its way."},
        ],
        "tools": TOOLS,
        **more,
    }


def write_rows(path: Path, rows: list) -> str:
    """JSON Lines; a str is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


SINGLE_STEP = "single_step_tool_use_with_argument_comparison"


def responses_tool(name: str, **properties: str) -> dict:
    """A tool in the flat form of the Responses API; properties by name and JSON type."""
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "description": None, "strict": True, "parameters": parameters}


def pivot_row(items: list | str, action: dict, agent: str, tools: tuple = (), **more: object) -> dict:
    """A NeMo-Gym row as the public Nemotron pivot sets have them."""
    request = {"input": items, "tools": list(tools), "parallel_tool_calls": True, "tool_choice": "auto"}
    agent_ref = {"type": "responses_api_agents", "name": agent}
    return {"responses_create_params": request, "expected_action": action, "agent_ref": agent_ref, **more}


def nemotron_rows() -> dict[str, dict]:
    """One self-made row in the form of each of the four public Nemotron pivot sets."""
    user = {"type": "message", "role": "user", "content": "Renew loan B-220, card C-91."}
    conversational = pivot_row(
        [{"type": "message", "role": "system", "content": "You are a library desk agent."}, user],
        {"type": "function_call", "name": "verify_card", "arguments": '{"card_id": "C-91"}'},
        f"{SINGLE_STEP}_agent",
        (responses_tool("verify_card", card_id="string"),),
        trajectory_id=7001,
        scenario=None,
        metadata=None,
        num_unique_actions=4,
        meta_info={"turn": 1, "step": 0, "assistant_depth": 0},
        qwen_235b_info={"rewards": [1, 0, 0, 1], "reward_mean": 0.5, "reward_std": 0.5, "reward_var": 0.25},
        pass_rate=0.25,
        pass_rate_total=16,
        pass_rate_passed=4,
    )
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Verify first."}]}
    calls = {
        "type": "function_call_batch",
        "calls": [
            {"type": "function_call", "name": "renew", "arguments": f'{{"item_id": "{item}"}}'}
            for item in ("B-220", "B-221")
        ],
    }
    function_calling = pivot_row(
        [
            {"role": "user", "content": [{"type": "input_text", "text": "Renew all. Card C-91."}]},
            reasoning,
            {"type": "function_call", "id": "fc_1", "call_id": "fc_1", "name": "verify_card", "arguments": "{", "x": 1},
            {"type": "function_call_output", "call_id": "fc_1", "output": "arguments are not JSON"},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Again."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]},
            {"type": "function_call", "call_id": "fc_2", "name": "verify_card", "arguments": '{"card_id": "C-91"}'},
            {"type": "function_call_output", "call_id": "fc_2", "output": '{"ok": true}'},
        ],
        calls,
        f"toolcall_schema_{SINGLE_STEP}_agent",
        (responses_tool("verify_card", card_id="string"), responses_tool("renew", item_id="string")),
        trajectory_id=3,
        info={"turn": 1, "step": 2, "depth": 2},
    )
    swe = pivot_row(
        [{"role": "system", "content": "You fix Python."}, {"role": "user", "content": "Fix clamp()."}],
        {
            "type": "function_call",
            "name": "str_replace_editor",
            "arguments": '{"command": "view", "path": "/repo/clamp.py"}',
        },
        f"{SINGLE_STEP}_swe",
        (responses_tool("str_replace_editor", command="string", path="string"),),
        trajectory_id=42,
        ref_patch="diff --git a/clamp.py b/clamp.py\n",
        metadata={"instance_id": "demo__u-1", "gold_patch": "+" * 20_000},
        pass_rate=0.375,
        pass_rate_passed=3,
        pass_rate_total=8,
    )
    answer = {
        "analysis": "Empty prompt.",
        "plan": "Count.",
        "commands": [{"keystrokes": "wc -l < a.txt\n", "duration": 0.1}],
        "task_complete": False,
    }
    terminal = {
        "schema_version": "v1",
        "uuid": "t2_pre_rp_00000000000000000000000000000001",
        "task_name": "count-lines",
        "tool_name": "bash_command",
        "responses_create_params": {
            "input": [
                {"role": "user", "content": "Count the lines of a.txt. Reply with JSON."},
                {"role": "assistant", "content": "I would say three."},
                {"role": "user", "content": "Previous response had parsing errors: no JSON found."},
            ]
        },
        "expected_answer": json.dumps(answer),
        "agent_ref": {"type": "responses_api_agents", "name": "terminus_judge_string_only_simple_agent"},
        "metadata": {
            "harness": "terminus_2",
            "source_trajectory_uid": "0123456789abcdef",
            "pivot_agent_turn_index": 1,
            "total_source_agent_turns": 3,
        },
    }
    return {
        "conversational": conversational,
        "function_calling": function_calling,
        "swe": swe,
        "terminal": terminal,
    }
