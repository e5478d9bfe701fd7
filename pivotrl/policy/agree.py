"""Work that every rank does for itself and that no rank may fail alone: the others would wait for it for ever."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from pivotrl.disk import describe

Result = TypeVar("Result")


def together(group: Any, work: Callable[[], Result]) -> list[Result]:
    """Do `work` on every rank of `group` (collective).

    Args:
        group: a process group for Python objects, such as `World.object_group`.
        work: must not call a collective.

    Returns:
        Every rank's result, in rank order.

    Raises:
        ValueError: on every rank, what the first rank that raised a ValueError or an OSError has to say, in the type
            that it raised where that is a kind of ValueError.
    """
    result, error = None, None
    try:
        result = work()
    except ValueError as wrong:
        error = wrong
    except OSError as wrong:
        error = ValueError(describe(wrong))
    everyone: list = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, (result, error), group=group)
    for rank, (_, wrong) in enumerate(everyone):
        if wrong is not None:
            kind = type(wrong) if type(wrong).__init__ is ValueError.__init__ else ValueError  # one that takes a text
            raise wrong if rank == 0 else kind(f"{wrong} (rank {rank})")
    return [found for found, _ in everyone]


def on_first(world: Any, work: Callable[[], Result]) -> Result:
    """Do `work` on rank 0 and give its result to every rank (collective); see `together` for what it raises."""
    return together(world.object_group, work if world.rank == 0 else lambda: None)[0]
