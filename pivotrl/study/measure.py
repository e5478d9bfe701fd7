"""What the engine's policy can do: whole tasks in the live desk, and questions that have nothing to do with it."""

from typing import TYPE_CHECKING, Any

from pivotrl.demo.environment import DeskEnvironment
from pivotrl.demo.families import questions
from pivotrl.demo.hard_families import HARD_FAMILIES
from pivotrl.episodes import Play, play
from pivotrl.policy.packing import Sample
from pivotrl.rollout.records import Request
from pivotrl.study.settings import CONTEXT, NEW_TOKENS
from pivotrl.trajectories.ids import stable_hash

if TYPE_CHECKING:
    from pivotrl.session import Session

ANSWER_TOKENS = 10
"""Longest answer sampled; the longest right one has 7 tokens and an end token."""
MAX_TURNS = 12


def measure(session: "Session", stream: str, tasks: int, count: int, seed: int) -> dict[str, Any]:
    """Play `tasks` tasks of the desk's `stream` at temperature 1, and ask `count` questions of each family, greedily.

    Returns:
        `success`: one 0 or 1 a task, as a string; `turns`: mean assistant turns of a dialog; `families`: family -> one
        0 or 1 a question; `log_probs`: family -> mean log-prob of the right answer (nats); `chances`: family -> mean
        chance of giving it at temperature 1.
    """
    how = Play(temperature=1.0, top_p=1.0, max_new_tokens=NEW_TOKENS, context=CONTEXT, max_turns=MAX_TURNS)
    episodes = play(
        session.engine,
        session.parser,
        session.template,
        [DeskEnvironment(stream) for _ in range(tasks)],
        range(tasks),
        lambda dialog, turn: stable_hash("study", stream, seed, dialog, turn) % 2**31,
        how,
        session.world,
    )
    families, log_probs, chances = ask(session, stream, count)
    return {
        "success": "".join("1" if episode.reward == 1 else "0" for episode in episodes),
        "turns": sum(len(episode.turns) for episode in episodes) / tasks,
        "families": families,
        "log_probs": log_probs,
        "chances": chances,
    }


def ask(session: "Session", stream: str, count: int) -> tuple[dict[str, str], dict[str, float], dict[str, float]]:
    """The families' part of `measure`."""
    asked = [(family, *pair) for family in HARD_FAMILIES for pair in questions(family, count, stream, HARD_FAMILIES)]
    prompts = [session.template.encode([{"role": "user", "content": question}], []) for _, question, _ in asked]
    requests = [
        Request(prompt_ids=prompt, n=1, seed=0, temperature=0.0, top_p=1.0, max_tokens=ANSWER_TOKENS)
        for prompt in prompts
    ]
    right = dict.fromkeys(HARD_FAMILIES, "")
    for (family, _, answer), group in zip(asked, session.engine.generate_all(requests), strict=True):
        right[family] += "1" if session.template.decode(group[0].token_ids) == answer else "0"
    end = [session.template.tokenizer.eos_token_id]
    answers = [session.template.tokenizer.encode(answer, add_special_tokens=False) + end for _, _, answer in asked]
    scored = session.policy.log_probs([Sample(*pair) for pair in zip(prompts, answers, strict=True)], temperature=1.0)
    sums, chances = dict.fromkeys(HARD_FAMILIES, 0.0), dict.fromkeys(HARD_FAMILIES, 0.0)
    for (family, _, _), logp in zip(asked, scored, strict=True):
        sums[family] += logp.sum().item() / count
        chances[family] += logp.sum().exp().item() / count
    return right, sums, chances
