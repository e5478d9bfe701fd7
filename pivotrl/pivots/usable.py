"""Whether a turn can be sampled and judged at all."""

from pivotrl.config import RunConfig
from pivotrl.pivots.score import Scorer
from pivotrl.trajectories.faults import RowFault
from pivotrl.trajectories.records import Turn
from pivotrl.trajectories.template import ChatTemplate


def usable_prompt(config: RunConfig, turn: Turn, scorer: Scorer, template: ChatTemplate) -> list[int]:
    """The turn's prompt ids. Raises RowFault where the turn cannot be sampled or judged."""
    try:
        scorer.check(turn)
    except ValueError as error:
        raise RowFault(
            "no_such_verifier", str(error), "name a verifier of this release in the row, or leave the row out"
        ) from None
    try:
        prompt_ids = template.encode(turn.messages, turn.tools)
    except ValueError as error:
        raise RowFault("template_refused", str(error), "change the messages, or set model.chat_template") from None
    room = config.rollout.max_model_len - config.rollout.max_new_tokens
    if len(prompt_ids) > room:
        raise RowFault(
            "prompt_too_long",
            f"{len(prompt_ids)} prompt tokens, and rollout.max_model_len leaves room for {room}",
            "raise rollout.max_model_len, lower rollout.max_new_tokens, or shorten the history",
        )
    return prompt_ids
