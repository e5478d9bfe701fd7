"""The preflight's verdict: every fault names the node and the number, and a fit job gives none."""

from dataclasses import replace

import pytest

from pivotrl.cluster.bandwidth import bus_gbps, rounds
from pivotrl.cluster.facts import Node
from pivotrl.cluster.judge import Limits, problems

H100 = ("NVIDIA H100 80GB HBM3", 81559)
LIMITS = Limits(gpus=8, node_gbps=100, link_gbps=13, clock_seconds=2, free_gib={"output": 10.0})


def cluster() -> list[Node]:
    names = [f"n{index}" for index in range(4)]
    return [
        Node(
            name=name,
            gpus=[H100] * 8,
            nvlinks=[18] * 8,
            free_gib={"output": 50.0},
            versions={"torch": "2.13.0", "git": "abc"},
            node_gbps=400.0,
            link_gbps={names[index - 1]: 300.0, names[(index + 1) % 4]: 300.0},
        )
        for index, name in enumerate(names)
    ]


def test_a_fit_job_has_no_problems() -> None:
    assert problems(cluster(), LIMITS) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"gpus": [H100] * 7, "nvlinks": [18] * 7}, "n2: 7 GPUs that work, and 8 ranks were started on it"),
        ({"gpus": [*[H100] * 7, ("NVIDIA H200", 143771)]}, "1 x NVIDIA H200 (143771 MiB), but 8 x NVIDIA H100"),
        ({"gpus": [*[H100] * 7, (H100[0], 40000)]}, "(40000 MiB)"),
        ({"nvlinks": [18] * 5 + [0] + [18] * 2}, "n2: GPU 5 has 0 active NVLinks, and the best has 18"),
        ({"free_gib": {"output": 3.26}}, "n2: output folder: 3.3 GiB free, less than 10"),
        ({"free_gib": {"output": "/x: Read-only file system"}}, "n2: output folder /x: Read-only file system"),
        ({"clock_seconds": -7.5}, "n2: its clock is -7.5 s from the first node's, more than 2"),
        ({"versions": {"torch": "2.12.0", "git": "abc"}}, "n2: torch 2.12.0, but 2.13.0 on 3 of 4 nodes (n0)"),
        ({"versions": {"torch": "2.13.0", "git": "abc-dirty"}}, "n2: git abc-dirty, but abc on 3 of 4 nodes (n0)"),
        ({"versions": {"git": "abc"}}, "n2: torch missing, but 2.13.0"),
        ({"node_gbps": 30.0}, "n2: all-reduce within the node 30.0 GB/s, less than 200.0"),
    ],
)
def test_a_fault_names_the_node_and_the_number(changes: dict, says: str) -> None:
    nodes = cluster()
    nodes[2] = replace(nodes[2], **changes)
    found = problems(nodes, LIMITS)
    assert any(says in line for line in found), found
    assert all(line.startswith("n2: ") for line in found), found


def test_a_slow_adapter_is_told_from_its_neighbours() -> None:
    nodes = cluster()
    for other in ("n1", "n3"):
        nodes[2].link_gbps[other] = 40.0
        nodes[int(other[1])].link_gbps["n2"] = 40.0
    found = problems(nodes, LIMITS)
    assert found == ["n2: all-reduce with its neighbours 40.0 GB/s with n1, 40.0 GB/s with n3, less than 150.0"]


def test_of_two_nodes_that_are_slow_together_both_are_named() -> None:
    nodes = cluster()[:2]
    nodes[0].link_gbps, nodes[1].link_gbps = {"n1": 1.0}, {"n0": 1.0}
    assert [line.split(":")[0] for line in problems(nodes, LIMITS)] == ["n0", "n1"]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5, 16])
def test_every_neighbour_is_measured_once_and_no_node_twice_at_a_time(nodes: int) -> None:
    asked = [pair for pairs in rounds(nodes) for pair in pairs]
    want = {frozenset((node, (node + 1) % nodes)) for node in range(nodes)} if nodes > 1 else set()
    assert {frozenset(pair) for pair in asked} == want and len(asked) == len(want)
    for pairs in rounds(nodes):
        members = [node for pair in pairs for node in pair]
        assert len(members) == len(set(members))


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    assert bus_gbps(8, 8 * 10**9, 1.0) == pytest.approx(14.0)
    assert bus_gbps(2, 10**9, 0.5) == pytest.approx(2.0)
