"""The analysis page's checks of the data: duplicates, leakage, lengths, and turns to read."""

import json
from typing import Any

from pivotrl.pivots.analysis.examples import CLASSES
from pivotrl.telemetry.charts import histogram
from pivotrl.telemetry.page import escape, number, percent, table


def duplicates(found: dict[str, Any]) -> str:
    """Equal prompts, equal actions, near-duplicates."""
    if not found:
        return ""
    alike = f"{found['near_from']:.0%}"
    lines = {
        "equal_prompts": "have the prompt of another turn (equal messages and tools)",
        "equal_prompts_other_action": "have the prompt of another turn, where the expert did something else: no policy "
        "can be right in both",
        "near_prompts": f"end nearly like a prompt of another trajectory (the last messages share {alike} or more of "
        "their three-word pieces, by MinHash)",
        "equal_actions": "have the expert's action of another turn, to the letter",
    }
    rows = [[percent(found[key]), words] for key, words in lines.items()]
    pairs = [[escape(one["id"]), escape(one["other"]), percent(one["similarity"])] for one in found["near_pairs"]]
    conflicts = [[escape(one["id"]), number(one["turns"])] for one in found["conflicts"]]
    shares = table(["of the turns", ""], rows, {0})
    html = f'<h2>Duplicates</h2>{_compared(found, "turns")}<div class="card">{shares}</div>'
    if pairs:
        html += _titled("The closest pairs", table(["turn", "and", "alike"], pairs, {2}))
    if conflicts:
        html += _titled("Experts who disagree", table(["equal prompts, other actions", "other turns"], conflicts, {1}))
    return html


def leakage(found: dict[str, Any]) -> str:
    """Held-out trajectories that training sees."""
    if not found:
        return '<h2>Leakage</h2><p class="soft">No trajectory is held out (trajectories.heldout_share).</p>'
    pairs = [[escape(one["id"]), escape(one["train"]), percent(one["similarity"])] for one in found["pairs"]]
    clean = not found["equal"] and not found["near"]
    tone = "up" if clean else "down"
    verdict = (
        "No held-out trajectory is in the training split, or nearly so."
        if clean
        else "What is measured on the held-out split is partly what was trained on: remove one of each pair."
    )
    head = ["held out", "in training", "alike"]
    shown = f'<div class="card">{table(head, pairs, {2})}</div>' if pairs else ""
    return (
        f"<h2>Leakage</h2>{_compared(found, 'held-out trajectories')}<p><b class='{tone}'>{verdict}</b> "
        f"{number(found['equal'])} are equal to one of the {number(found['train'])} trajectories of training, "
        f"{number(found['near'])} more share {found['near_from']:.0%} or more of their three-word pieces with one "
        f"(system messages left out).</p>{shown}"
    )


def lengths(found: dict[str, Any]) -> str:
    """How long prompts are, and what the context limit drops."""
    if not found:
        return ""
    in_tokens = found["unit"] == "tokens"
    mark = found["room"] if in_tokens and found["room"] < 4 * found["quantiles"]["1"] else None
    chart = histogram(found["counts"], found["width"], "turns", mark)
    rows = [[f"{float(q):.0%}", number(length)] for q, length in found["quantiles"].items()]
    note = f'<p class="note">{escape(found["why_not_tokens"])}: lengths are in characters.</p>' if not in_tokens else ""
    limits = [[number(int(limit)), percent(share)] for limit, share in found["longer_than"].items()]
    dropped = (
        f"{number(found['dropped'])} turns were longer than the {number(found['room'])} tokens that "
        "rollout.max_model_len leaves beside an action, and were not profiled."
    )
    tables = table(["share of turns", f"at most, in {found['unit']}"], rows, {0, 1})
    if limits:
        tables += table(["room for a prompt", "turns that it leaves out"], limits, {0, 1})
    line = " The line is the room that this selection had." if mark is not None else ""
    return (
        f"<h2>Lengths</h2><p>{dropped} Measured on {number(found['measured'])} of {number(found['turns'])} turns.</p>"
        f'{note}<div class="grid"><figure><h3>Prompt length</h3><figcaption>Turns by the {found["unit"]} of their '
        f'prompts.{line}</figcaption>{chart}</figure><div class="card">{tables}</div></div>'
    )


def examples(classes: dict[str, Any]) -> str:
    """A few turns of each class, with what their samples earned."""
    blocks = []
    for kind, title in CLASSES.items():
        for one in classes.get(kind, {}).get("examples", []):
            verdicts = [[number(v["samples"]), number(v["reward"]), escape(v["reason"])] for v in one["verdicts"][:8]]
            expert = escape(json.dumps(one["expert"], indent=2, ensure_ascii=False))
            blocks.append(
                f'<div class="card" style="margin:12px 0"><h3>{escape(one["id"])}</h3><div class="soft">{title}; '
                f"mean {number(one['mean'])} of {number(one['samples'])} samples; {escape(one['source'])}</div>"
                f'<span class="tag">The end of what it saw</span><pre>{escape(one["prompt_end"])}</pre>'
                f'<span class="tag">The expert\'s action</span><pre>{expert}</pre>'
                f"{table(['samples', 'reward', 'reason'], verdicts, {0, 1})}</div>"
            )
    return f"<h2>Turns to read</h2><details open><summary>{len(blocks)} turns</summary>{''.join(blocks)}</details>"


def _titled(title: str, inner: str) -> str:
    return f'<h3 style="margin-top:18px">{title}</h3><div class="card">{inner}</div>'


def _compared(found: dict[str, Any], what: str) -> str:
    total = found.get("turns", found.get("heldout"))
    if found["compared"] == total:
        return f"<p>All {number(total)} {what} were compared.</p>"
    return f"<p>An even sample of {number(found['compared'])} of {number(total)} {what} was compared with all.</p>"
