"""A plan in words for a terminal, and as JSON."""

import textwrap
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.flops import active_parameters, parameters
from pivotrl.planning.hardware import GIB, Cluster
from pivotrl.planning.layouts import Candidate
from pivotrl.planning.phases import host_bytes
from pivotrl.planning.plan import Plan, Seconds
from pivotrl.planning.shards import data_parallel
from pivotrl.planning.static import kv_tokens
from pivotrl.planning.workload import Work, work_of

_MOST_LAYOUTS = 6
_MOST_REFUSED = 2
_MOST_IN_JSON = 20


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a report is made of."""

    source: str
    """Where the model's sizes come from."""
    plan: Plan
    clusters: list[Cluster]
    """The same nodes with one kind of GPU each."""
    seconds: list[Seconds]
    """For each of `clusters`."""
    assumed: Assumptions
    layouts: dict[str, tuple[list[Candidate], list[Candidate]]]
    """By name of the GPU: those that fit, and those that do not; empty where none were asked for."""

    @property
    def work(self) -> Work:
        data_ranks, _ = data_parallel(self.plan.config.parallel, self.plan.ranks)
        return work_of(self.plan.config, self.plan.arch, self.plan.lengths, data_ranks)


def text(found: Found) -> str:
    """The report, at most 66 lines of at most 120 columns."""
    parts = [_head(found), _memory(found), _seconds(found)]
    if found.layouts:
        parts.append(_layouts(found))
    parts.append(_assumptions(found))
    return "\n\n".join("\n".join(lines) for lines in parts)


def as_json(found: Found) -> dict[str, Any]:
    """The same as plain values; memory in bytes."""
    plan = found.plan
    return {
        "measured_on_a_gpu": False,
        "model": {
            "source": found.source,
            "parameters": parameters(plan.arch),
            "active_parameters": active_parameters(plan.arch),
        },
        "config": plan.config.model_dump(mode="json"),
        "lengths": asdict(plan.lengths),
        "ranks": plan.ranks,
        "micro_batches": {
            "of_a_rank": len(found.work.rounds),
            "tokens": max(r.tokens for r in found.work.rounds),
            "packing": found.work.packing,
            "gain": found.work.gain,
        },
        "memory": {
            "stage": plan.memory.stage,
            "phases": {name: ledger.parts() | {"total": ledger.total} for name, ledger in plan.memory.phases.items()},
            "host_bytes_of_a_rank": host_bytes(plan.config, plan.memory.held),
        },
        "gpus": {
            cluster.gpu.name: {
                "memory": cluster.gpu.memory,
                "fits": plan.fits(cluster.gpu),
                "refusal": None if plan.fits(cluster.gpu) else plan.refusal(cluster.gpu),
                "seconds": seconds.phases | {"step": seconds.total},
                "train_seconds": seconds.train,
                "rollout": asdict(seconds.rollout),
            }
            for cluster, seconds in zip(found.clusters, found.seconds, strict=True)
        },
        "layouts": {
            name: {
                "fit": [_layout_json(one) for one in fit],
                "do_not_fit": [_layout_json(one) for one in rest[:_MOST_IN_JSON]],
                "that_do_not_fit": len(rest),
            }
            for name, (fit, rest) in found.layouts.items()
        },
        "assumptions": found.assumed.described(),
    }


def _layout_json(one: Candidate) -> dict[str, Any]:
    phase, ledger = one.plan.memory.worst
    return {"overrides": one.overrides, "seconds": one.seconds, "peak_phase": phase, "peak": ledger.total}


def _head(found: Found) -> list[str]:
    plan, config, cluster = found.plan, found.plan.config, found.clusters[0]
    parallel, training = config.parallel, config.training
    dense, experts = data_parallel(parallel, plan.ranks)
    work, lengths = found.work, plan.lengths
    tokens = sum(r.tokens for r in work.rounds) * dense
    layout = f"TP {parallel.tensor}, PP {parallel.pipeline}"
    if parallel.virtual_pipeline > 1:
        layout += f" x {parallel.virtual_pipeline} chunks"
    if plan.arch.experts:
        layout += f", EP {parallel.expert}, ETP {parallel.expert_tensor}"
    layout += f", DP {dense}" + (f" (of experts {experts})" if plan.arch.experts else "")
    nodes = f"{cluster.nodes} node{'s' * (cluster.nodes > 1)} of {cluster.gpus_per_node} GPUs"
    size, active = _count(parameters(plan.arch)), _count(active_parameters(plan.arch))
    fewer = f", {work.gain:.1f} times fewer than samples apart" if round(work.gain, 1) > 1 else ""
    tokens_held = kv_tokens(config, plan.arch)
    return [
        f"Plan for {nodes}, {plan.ranks} ranks. Computed, not measured: no number here is from a GPU.",
        f"model    {size} parameters, {active} active for a token; {config.model.dtype}; {found.source}",
        f"trainer  {layout}; recompute {config.model.recompute}",
        f"engines  {found.seconds[0].rollout.engines} of TP {config.rollout.tensor}; a cache of "
        f"{config.rollout.kv_cache_gib:g} GiB a rank holds {tokens_held:,} tokens, a step needs "
        f"{found.seconds[0].rollout.cache_load:,} of them on average",
        f"step     {training.pivots_per_step} pivots x {training.group_size} samples; prompts of {lengths.prompt:,} "
        f"tokens, responses of {lengths.response:,}",
        f"update   {work.packing}: {tokens / 1e6:.2f} M tokens through the layers{fewer}; "
        f"{len(work.rounds)} micro-batches a rank",
    ]


def _memory(found: Found) -> list[str]:
    plan = found.plan
    columns = ["weights", "gradients", "optimizer", "activations", "engine", "kv_cache", "buffers"]
    lines = [f"memory of {plan.fullest_rank}, GiB"]
    lines.append("  " + f"{'phase':9}" + "".join(f"{name.replace('_', ' '):>12}" for name in [*columns, "total"]))
    for name, ledger in plan.memory.phases.items():
        numbers = [ledger.parts()[column] for column in columns] + [ledger.total]
        lines.append("  " + f"{name:9}" + "".join(f"{number / GIB:12.1f}" for number in numbers))
    on_host = host_bytes(plan.config, plan.memory.held)
    if on_host:
        per_node = on_host * found.clusters[0].gpus_per_node / GIB
        lines.append(f"  and {on_host / GIB:.1f} GiB of the CPU's memory for each rank, {per_node:.0f} a node")
    for gpu in (cluster.gpu for cluster in found.clusters):
        spare = (gpu.memory - plan.memory.worst[1].total) / GIB
        if plan.fits(gpu):
            lines.append(f"  {gpu.name}: fits, {spare:.1f} of {gpu.memory / GIB:.1f} GiB to spare")
        else:
            lines += textwrap.wrap(f"  {gpu.name}: DOES NOT FIT: {plan.refusal(gpu)}", 118, subsequent_indent="    ")
    return lines


def _seconds(found: Found) -> list[str]:
    plan = found.plan
    names = [name for name in found.seconds[0].phases if name != "log-prob" or found.seconds[0].phases[name]]
    lines = ["seconds of a step" + "".join(f"{cluster.gpu.name:>12}" for cluster in found.clusters)]
    for name in names:
        numbers = "".join(f"{seconds.phases[name]:12.1f}" for seconds in found.seconds)
        lines.append(f"  {name:15}{numbers}{_saves(found) if name == 'save' else ''}")
    lines.append("  " + f"{'in all':15}" + "".join(f"{seconds.total:12.1f}" for seconds in found.seconds))
    training, lengths = plan.config.training, plan.lengths
    tokens = training.pivots_per_step * training.group_size * (lengths.prompt + lengths.response)
    rates = "".join(f"{tokens / seconds.total / plan.ranks:12,.0f}" for seconds in found.seconds)
    lines.append("  " + f"{'tokens/s/GPU':15}{rates}    prompt and response of every sample")
    first = found.seconds[0]
    gpu = found.clusters[0].gpu.name
    shares = ", ".join(f"{name} {seconds:.1f}" for name, seconds in first.train.items())
    rollout = first.rollout
    lines.append(f"  train on {gpu}: {shares}")
    together = f"all its {rollout.at_once} sequences at once"
    if rollout.at_once < rollout.sequences:
        together = f"{rollout.at_once} of {rollout.sequences} sequences at once ({rollout.limited_by})"
    lines.append(
        f"  rollout on {gpu}: prefill {rollout.prefill:.1f}, decode {rollout.decode:.1f}; an engine decodes {together}"
    )
    return lines


def _saves(found: Found) -> str:
    """What a step's share of the checkpoints is a share of."""
    every = found.plan.config.checkpoint.every
    if not every:
        return ""
    whole = " and ".join(dict.fromkeys(f"{every * seconds.phases['save']:.0f} s" for seconds in found.seconds))
    return f"    {whole} of writing every {every} steps" if every > 1 else ""


def _layouts(found: Found) -> list[str]:
    lines = []
    for cluster in found.clusters:
        gpu = cluster.gpu
        fit, rest = found.layouts[gpu.name]
        how_many = f"{len(fit)} fit, fastest first" if fit else "none fits"
        lines.append(f"layouts on {gpu.name}: {how_many}; {len(rest)} do not, the nearest first")
        lines.append(
            f"  {'seconds':>8}{'peak GiB':>10} {'in':9}{'TP':>3}{'PP':>4}{'EP':>4}  {'recompute':11}engines' TP"
        )
        lines += [_layout_line(one) for one in fit[:_MOST_LAYOUTS]]
        for one in rest[:_MOST_REFUSED]:
            lacking = (one.plan.memory.worst[1].total - gpu.memory) / GIB
            lines.append(f"{_layout_line(one)}   lacks {lacking:.1f} GiB: {one.plan.memory.worst[1].largest(2)}")
        if fit:
            lines.append(f"  the first: {fit[0].overrides}")
    return lines


def _layout_line(one: Candidate) -> str:
    phase, ledger = one.plan.memory.worst
    config = one.plan.config
    sizes = f"{config.parallel.tensor:3}{config.parallel.pipeline:4}{config.parallel.expert:4}"
    line = f"  {one.seconds:8.1f}{ledger.total / GIB:10.1f} {phase:9}{sizes}  {config.model.recompute:11}"
    return f"{line}{config.rollout.tensor:2}"


def _count(number: int) -> str:
    return f"{number / 1e9:.2f} B" if number >= 1e8 else f"{number / 1e6:.2f} M"


def _assumptions(found: Found) -> list[str]:
    """In two columns, read downwards."""
    words = found.assumed.in_words()
    half = -(-len(words) // 2)
    rows = zip_longest(words[:half], words[half:], fillvalue="")
    lines = ["assumed, not measured (constants in pivotrl/planning/assumptions.py):"]
    return lines + [f"  {left:57} {right}".rstrip() for left, right in rows]
