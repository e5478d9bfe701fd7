"""The report's charts over training steps: one a metric, each with a sentence that says what to look for."""

from typing import NamedTuple

from pivotrl.telemetry.charts import Series, line_chart, stacked_chart
from pivotrl.telemetry.run_files import RunFiles


class Curve(NamedTuple):
    title: str
    metrics: tuple[str, ...]
    low: float | None
    """Bottom of the axis where the values allow it; None follows the values. `high` likewise."""
    high: float | None
    caption: str


CURVES = (
    Curve("Reward", ("reward",), 0.0, 1.0, "Mean reward of the sampled actions. Should rise."),
    Curve("Cross entropy", ("cross_entropy",), 0.0, None, "Of what the expert wrote, in nats a token. Should fall."),
    Curve(
        "Groups with a signal",
        ("signal_share",),
        0.0,
        1.0,
        "Share of groups whose samples differ in reward. The others give no gradient; falls as turns are mastered.",
    ),
    Curve("Entropy", ("entropy",), 0.0, None, "Of the policy at a sampled token, in nats. Near 0 it explores no more."),
    Curve("KL to the reference", ("kl",), None, None, "Distance from the frozen starting policy, in nats a token."),
    Curve("Probability ratio", ("ratio",), None, None, "Policy over sampler, mean. 1 when each batch is used once."),
    Curve("Clipped tokens", ("clip_share",), 0.0, None, "Share of tokens whose ratio left the clip range."),
    Curve("Gradient norm", ("grad_norm",), 0.0, None, "Before clipping. Spikes come before trouble."),
    Curve(
        "Sampler against trainer",
        ("gap", "gap_max"),
        0.0,
        None,
        "Absolute difference of the two log-probs of a sampled token: mean and largest. "
        "Large or growing: the engine does not hold the policy's weights.",
    ),
    Curve(
        "Proof of each refit",
        ("canary_error",),
        0.0,
        None,
        "Largest log-prob difference on the canary after the weights went over. The run stops above its tolerance.",
    ),
    Curve("Action length", ("response_length",), 0.0, None, "Tokens of a sampled action, mean."),
    Curve("Cut off", ("cut_off_share",), 0.0, None, "Share of actions that hit the token limit."),
    Curve(
        "GPUs at work",
        ("gpu.utilisation", "gpu.utilisation_least"),
        0.0,
        1.0,
        "Share of the time that a kernel ran: mean over the GPUs, and the GPU that worked least.",
    ),
    Curve("GPU memory", ("gpu.memory_gib",), 0.0, None, "GiB of the fullest GPU."),
    Curve("GPUs throttled", ("gpu.throttled",), 0.0, None, "GPUs whose clock was held down by heat or power."),
    Curve("Speed", ("tokens_per_second",), 0.0, None, "Prompt and sampled tokens a second over the whole step."),
)


def curves(run: RunFiles) -> str:
    """The charts of all metrics that the run recorded, and where each step's time went."""
    if not run.metrics:
        return ""
    figures = []
    for curve in CURVES:
        recorded = [name for name in curve.metrics if any(row.get(name) is not None for row in run.metrics)]
        if recorded:
            chart = line_chart({name: _series(run, name) for name in recorded}, curve.low, curve.high)
            figures.append(_figure(curve.title, curve.caption, chart))
    phases = _phases(run)
    if phases:
        figures.append(_figure("Seconds per step", "Where the time of each step went.", stacked_chart(phases)))
    return f'<h2>Training, step by step</h2><div class="grid">{"".join(figures)}</div>'


def _figure(title: str, caption: str, chart: str) -> str:
    return f"<figure><h3>{title}</h3><figcaption>{caption}</figcaption>{chart}</figure>"


def _series(run: RunFiles, name: str) -> Series:
    """Steps are counted from 1 on the page, as on the terminal; the files count from 0."""
    return [(row["step"] + 1, row.get(name)) for row in run.metrics]


def _phases(run: RunFiles) -> dict[str, Series]:
    """Phases in the order first seen; what the total has beyond them is "other"."""
    names = list(dict.fromkeys(key for row in run.metrics for key in row if key.startswith("seconds.")))
    phases = {name.removeprefix("seconds."): _series(run, name) for name in names if name != "seconds.total"}
    if phases and "seconds.total" in names:
        rest = []
        for index, (step, total) in enumerate(_series(run, "seconds.total")):
            rest.append((step, max(0.0, (total or 0.0) - sum(line[index][1] or 0.0 for line in phases.values()))))
        phases["other"] = rest
    return phases
