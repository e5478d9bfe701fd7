"""What a completion does, out of the items that a parser found in it."""

from pivotrl.verifiers.attempt import Item
from pivotrl.verifiers.base import Verdict


def split_items(items: list[Item] | None) -> tuple[list[Item], str | None]:
    """The function calls, and the first message's text (None: there is no message).

    Whoever judges lets calls win over text, as NeMo-Gym does. Items of other types (reasoning), and
    whatever is no item, are passed over.
    """
    items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    calls = [item for item in items if item.get("type") == "function_call"]
    texts = (item.get("content") for item in items if item.get("type") == "message")
    return calls, next((text if isinstance(text, str) else "" for text in texts), None)


def expert_calls(expert: Item) -> list[Item]:
    """The expert's calls; none where the expert wrote a message."""
    if expert["type"] == "message":
        return []
    return expert["calls"] if expert["type"] == "function_call_batch" else [expert]


def other_kind(expected: list[Item], actual: list[Item], message: str | None) -> Verdict | None:
    """The verdict where the model did another kind of thing than the expert: nothing, a message where calls are
    expected, or calls where a message is. None where both called, or both wrote."""
    if not actual and message is None:
        return Verdict(0.0, "no_action")
    if bool(expected) == bool(actual):
        return None
    return Verdict(0.0, "message_where_call_expected" if expected else "call_where_message_expected")
