"""Which verifier a NeMo-Gym row was made for, by the name of its agent, and the other way round.

The names are those of the configurations in NeMo-Gym's `resources_servers/*/configs` (snapshot 07d6b0d0) and, for the
SWE set, the older one that its rows still carry.
"""

from typing import Any

SINGLE_STEP = "single_step_tool_use_with_argument_comparison"
VERIFIERS: dict[str, dict[str, Any]] = {
    f"{SINGLE_STEP}_swe": {"name": "tool_call", "params": {"word_count_similarity_threshold": 0.0}},
    f"swe_pivot_{SINGLE_STEP}": {"name": "tool_call", "params": {"word_count_similarity_threshold": 0.0}},
    f"droid_pivot_{SINGLE_STEP}": {"name": "tool_call", "params": {"word_count_similarity_threshold": 0.0}},
    f"search_pivot_{SINGLE_STEP}": {"name": "search"},
    f"parallel_tool_calls_{SINGLE_STEP}": {
        "name": "tool_call",
        "params": {
            "parallel_tool_call_rewarding": True,
            "parallel_tool_call_reward_mode": "f1",
            "allow_subset": True,
            "allow_superset": True,
        },
    },
    "swe_pivot_tool_simulation": {"name": "swe_pivot"},
    "terminus_judge_string_only_simple": {"name": "terminal", "params": {"string_similarity_threshold": 0.9}},
    "terminus_judge_simple": {"name": "terminal", "params": {"string_similarity_threshold": 0.95}},
}
"""By the agent's name without `_agent`. Not here: the agents of the conversational and function calling sets, whose
settings are `tool_call`'s defaults, so that a run's own verifier judges them. `terminus_judge_simple` is shared by two
configurations; the stricter one's threshold stands here, because `terminal` has no judge behind it."""


def verifier_of_agent(agent: Any) -> dict[str, Any]:
    """A row's verifier by its `agent_ref`, with NVIDIA's preset; empty where the name is not known."""
    name = agent.get("name") if isinstance(agent, dict) else agent
    found = VERIFIERS.get(name.removesuffix("_agent")) if isinstance(name, str) else None
    return {**found, "preset": "nemo_gym"} if found else {}


def agent_of_verifier(verifier: dict[str, Any]) -> str:
    """The name of the agent whose rows are judged by `verifier`, or by what NeMo-Gym has nearest to it: for verifiers
    that it does not know, the plain comparison of calls."""
    chosen = {key: value for key, value in verifier.items() if key != "preset"}
    for name, known in VERIFIERS.items():
        if chosen == known:
            return f"{name}_agent".replace("_swe_agent", "_swe")
    plain = {"terminal": "terminus_judge_string_only_simple", "swe_pivot": "swe_pivot_tool_simulation"}
    plain["search"] = f"search_pivot_{SINGLE_STEP}"
    return f"{plain.get(verifier.get('name', ''), SINGLE_STEP)}_agent"
