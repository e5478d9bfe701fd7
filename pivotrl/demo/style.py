"""The expert's manner: the same actions in other words, as another teacher's logs would have them.

`plain` is the manner of the base model's own pretraining. `chatty` puts words before every call, words its messages
otherwise, and names a call's arguments in reverse order: for a verifier it is the same, for imitation it is not.
"""

import copy
import json
import random
from typing import Literal, get_args

Style = Literal["plain", "chatty"]
STYLES: tuple[Style, ...] = get_args(Style)

_OPENINGS = ("Sure ! ", "Of course . ", "Yes . ")
_BEFORE = {
    "find_user": ("Let me find the user .", "First I look you up ."),
    "get_order": ("Let me look at the order .", "Now I see to order {order_id} ."),
    "cancel_order": ("I cancel the order for you .", "Let me cancel it ."),
    "change_city": ("I send the order to {city} .", "Let me change it ."),
    "refund": ("I refund the order for you .", "Let me refund it to {method} ."),
    "transfer": ("It is not allowed .", "A human will see to it ."),
}
_AFTER = ("What else is there ?", "Is there more ?")


def restyle(messages: list[dict], style: Style, seed: str) -> list[dict]:
    """The dialog with its assistant's turns in another style; which of the wordings is drawn from `seed`.

    Raises ValueError where the style does not exist.
    """
    if style not in STYLES:
        raise ValueError(f"style {style!r} does not exist: choose one of {', '.join(STYLES)}")
    if style == "plain":
        return messages
    rng = random.Random(f"style/{seed}")
    return [_chatty(message, rng) if message["role"] == "assistant" else message for message in messages]


def _chatty(message: dict, rng: random.Random) -> dict:
    message, opening = copy.deepcopy(message), rng.choice(_OPENINGS)
    if not message.get("tool_calls"):
        said = message["content"].removesuffix("Anything else?").strip()
        asks = said.endswith("?")  # who the user is
        message["content"] = f"{opening}And you are ?" if asks else f"{opening}{said} {rng.choice(_AFTER)}"
        return message
    function = message["tool_calls"][0]["function"]
    arguments = json.loads(function["arguments"])
    message["content"] = opening + rng.choice(_BEFORE[function["name"]]).format(**arguments)
    function["arguments"] = json.dumps(dict(reversed(arguments.items())))
    return message
