"""The customer desk's six tools, and everything that can be named in it.

Ids are a letter and two digits, which the demo's tokenizer keeps as one token: looking an id up is then one step for a
model of a million parameters.
"""

ITEMS = ("lamp", "rug", "fan", "mug", "sofa", "vase", "clock", "desk")
CITIES = ("oslo", "lima", "rome", "cairo", "paris", "delhi", "quito", "tokyo")
METHODS = ("card", "gift", "bank")
REASONS = ("late", "broken", "unwanted")
STATUSES = ("pending", "shipped", "delivered")
USER_IDS = tuple(f"u{n}" for n in range(10, 30))
ORDER_IDS = tuple(f"w{n}" for n in range(10, 50))

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "find_user": ("user_id",),
    "get_order": ("order_id",),
    "cancel_order": ("order_id", "reason"),
    "change_city": ("order_id", "city"),
    "refund": ("order_id", "method"),
    "transfer": ("why",),
}
"""Tool name -> its arguments, in order; all are required strings."""

_DESCRIPTIONS = {
    "find_user": "Open the caller's account and list its orders.",
    "get_order": "Read one order of the open account.",
    "cancel_order": "Cancel an order, for a reason.",
    "change_city": "Send an order to another city.",
    "refund": "Pay an order back by a method.",
    "transfer": "Hand the request to a human: why is status, method or owner.",
}

TOOLS: list[dict] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": _DESCRIPTIONS[name],
            "parameters": {
                "type": "object",
                "properties": {argument: {"type": "string"} for argument in arguments},
                "required": list(arguments),
            },
        },
    }
    for name, arguments in ARGUMENTS.items()
]
"""The tools in OpenAI chat form."""

SYSTEM = (
    "Customer desk. First find the user. Look at an order before you act. Cancel or change only pending orders. "
    "Refund only delivered orders and only to the paid method. If it is not allowed, transfer."
)
"""The system prompt: the policy that the expert follows and the database does not enforce."""
