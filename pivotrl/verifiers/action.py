"""What a completion does, out of the items that a parser found in it."""

from pivotrl.verifiers.attempt import Item


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
