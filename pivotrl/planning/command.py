"""From the arguments of tools/plan.py to what its report is made of."""

import argparse
import re
from pathlib import Path

from pivotrl.config import load_config
from pivotrl.planning import refit_traffic
from pivotrl.planning.assumptions import Assumptions
from pivotrl.planning.hardware import GPUS, Cluster
from pivotrl.planning.layouts import rank_layouts
from pivotrl.planning.models import architecture_of
from pivotrl.planning.plan import make_plan, seconds_of
from pivotrl.planning.report import Found
from pivotrl.planning.sizes import with_context
from pivotrl.planning.workload import lengths_of

DEFAULT_NODES, DEFAULT_GPUS = 4, 8


def find(arguments: argparse.Namespace) -> Found:
    """Plan the run that the arguments name.

    Raises:
        ValueError: the configuration, the model or the lengths cannot be used, or the run cannot work on any GPU.
    """
    config = load_config(arguments.config, arguments.overrides)
    arch, source = architecture_of(config.model.path, arguments.hf)
    config = with_context(config, arch, "cuda")
    nodes, gpus = _nodes(arguments)
    lengths = lengths_of(config, arguments.prompt_tokens, arguments.response_tokens)
    assumed = Assumptions()
    kinds = [GPUS[arguments.gpu]] if arguments.gpu else list(GPUS.values())
    clusters = [Cluster(gpu, nodes, gpus) for gpu in kinds]
    plan = make_plan(config, arch, nodes * gpus, lengths, assumed, min(gpu.memory for gpu in kinds))
    seconds = [seconds_of(plan, cluster, assumed) for cluster in clusters]
    layouts = {}
    if arguments.layouts:
        layouts = rank_layouts(config, arch, clusters, lengths, assumed)
    return Found(source, plan, clusters, seconds, assumed, layouts)


def refit_table(arguments: argparse.Namespace) -> str:
    """What a refit of the run moves. Raises ValueError as `find`."""
    config = load_config(arguments.config, arguments.overrides)
    arch, _ = architecture_of(config.model.path, arguments.hf)
    return refit_traffic.text(config, arch, Cluster(GPUS[arguments.gpu or "h100"], *_nodes(arguments)))


def _nodes(arguments: argparse.Namespace) -> tuple[int, int]:
    """Nodes and GPUs of each: as asked for, or as the head of the file says ("For 4 nodes of 8 H100")."""
    head = Path(arguments.config).read_text(encoding="utf-8")[:2000]
    said = re.search(r"^#.*?\b(\d+) nodes? of (\d+)\b", head, re.MULTILINE)
    nodes, gpus = (int(said[1]), int(said[2])) if said else (DEFAULT_NODES, DEFAULT_GPUS)
    nodes = nodes if arguments.nodes is None else arguments.nodes
    gpus = gpus if arguments.gpus_per_node is None else arguments.gpus_per_node
    if nodes < 1 or gpus < 1:
        raise ValueError(f"--nodes {nodes} --gpus-per-node {gpus}: give 1 or more")
    return nodes, gpus
