"""Which nodes are not fit for the job: one line each, with the node's name and the number."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pivotrl.cluster.facts import Node

SLOW = 0.5
"""Share of the best node's bandwidth below which another one is slow, whatever the limits say."""


@dataclass(frozen=True)
class Limits:
    gpus: int = 0
    """Ranks on a node; 0 on CPUs."""
    node_gbps: float = 0.0
    link_gbps: float = 0.0
    clock_seconds: float = 2.0
    free_gib: dict[str, float] | None = None
    """What a folder is for -> the least."""


def problems(nodes: Sequence[Node], limits: Limits) -> list[str]:
    """Everything that is wrong; nothing where the job can start."""
    found = []
    for node in nodes:
        found += [f"{node.name}: {text}" for text in _alone(node, limits)]
    found += _odd(nodes, "GPUs", lambda node: _kinds(node.gpus))
    for key in sorted({key for node in nodes for key in node.versions}):
        found += _odd(nodes, key, lambda node, key=key: node.versions.get(key, "missing"))
    return found + _links_down(nodes) + _slow_nodes(nodes, limits) + _slow_links(nodes, limits)


def _alone(node: Node, limits: Limits) -> list[str]:
    found = []
    if len(node.gpus) < limits.gpus:
        found.append(f"{len(node.gpus)} GPUs that work, and {limits.gpus} ranks were started on it")
    for name, least in (limits.free_gib or {}).items():
        free = node.free_gib[name]
        if isinstance(free, str):
            found.append(f"{name} folder {free}")
        elif free < least:
            found.append(f"{name} folder: {free:.1f} GiB free, less than {least:g}")
    if abs(node.clock_seconds) > limits.clock_seconds:
        found.append(
            f"its clock is {node.clock_seconds:+.1f} s from the first node's, more than {limits.clock_seconds:g}"
        )
    return found


def _odd(nodes: Sequence[Node], what: str, value: Callable[[Node], Any]) -> list[str]:
    """Nodes that have another value than most (of equally many: than the first node)."""
    values = [value(node) for node in nodes]
    usual = Counter(values).most_common(1)[0][0]
    example = nodes[values.index(usual)].name
    return [
        f"{node.name}: {what} {own}, but {usual} on {values.count(usual)} of {len(nodes)} nodes ({example})"
        for node, own in zip(nodes, values)
        if own != usual
    ]


def _kinds(gpus: Sequence[tuple[str, int]]) -> str:
    """2 x NVIDIA H100 (81559 MiB)"""
    counts = Counter(gpus)
    return ", ".join(f"{count} x {name} ({mib} MiB)" for (name, mib), count in sorted(counts.items())) or "none"


def _links_down(nodes: Sequence[Node]) -> list[str]:
    most = max((links for node in nodes for links in node.nvlinks), default=0)
    return [
        f"{node.name}: GPU {index} has {links} active NVLinks, and the best has {most}"
        for node in nodes
        for index, links in enumerate(node.nvlinks)
        if links < most
    ]


def _slow_nodes(nodes: Sequence[Node], limits: Limits) -> list[str]:
    measured = {node.name: node.node_gbps for node in nodes if node.node_gbps is not None}
    floor = _floor(list(measured.values()), limits.node_gbps)
    return [
        f"{name}: all-reduce within the node {gbps:.1f} GB/s, less than {floor:.1f}"
        for name, gbps in measured.items()
        if gbps < floor
    ]


def _slow_links(nodes: Sequence[Node], limits: Limits) -> list[str]:
    """A node whose links are all slow is named alone where its neighbours have a good one."""
    floor = _floor([gbps for node in nodes for gbps in node.link_gbps.values()], limits.link_gbps)
    good = {node.name for node in nodes if any(gbps >= floor for gbps in node.link_gbps.values())}
    found = []
    for node in nodes:
        slow = {other: gbps for other, gbps in node.link_gbps.items() if gbps < floor}
        if slow and node.name not in good:
            links = ", ".join(f"{gbps:.1f} GB/s with {other}" for other, gbps in slow.items())
            found.append(f"{node.name}: all-reduce with its neighbours {links}, less than {floor:.1f}")
    if found or all(gbps >= floor for node in nodes for gbps in node.link_gbps.values()):
        return found
    return [
        f"{node.name}: all-reduce with {other} {gbps:.1f} GB/s, less than {floor:.1f}"
        for node in nodes
        for other, gbps in node.link_gbps.items()
        if gbps < floor
    ]


def _floor(values: list[float], limit: float) -> float:
    """The limit, or half the best, whichever is more. Not of the median: on few nodes a bad one has a part in it."""
    return max([limit, *(SLOW * value for value in values)])
