"""What the ranks of a selection share while each goes its own way: counters that all of them can add to."""

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine


class Counters:
    """Whole numbers from 0 on, by name. Over several ranks they lie in torch's store, where an addition is atomic."""

    def __init__(self, engine: "Engine", name: str):
        """
        Args:
            engine: tells whether there are several ranks.
            name: the same on every rank, and unlike that of any other `Counters` of this process group.
        """
        self._own: Counter[str] = Counter()
        self._store: Any = None
        if engine.world_size > 1:
            import torch.distributed as dist

            self._store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())

    def add(self, name: str, amount: int) -> int:
        """Add `amount` -> the sum of all ranks so far."""
        if self._store is not None:
            return self._store.add(name, amount)
        self._own[name] += amount
        return self._own[name]

    def read(self, name: str) -> int:
        return self.add(name, 0)


class Crew:
    """The ranks of one engine, which do the same at the same time; the first of them decides and writes."""

    def __init__(self, engine: "Engine"):
        """Collective over the world."""
        tensor = engine.world_size // engine.engines
        self.leads = engine.rank % tensor == 0
        self._first = engine.rank - engine.rank % tensor
        self._group: Any = None
        if tensor > 1:
            import torch.distributed as dist

            self._group, _ = dist.new_subgroups(tensor, backend="gloo")

    def told(self, value: Any) -> Any:
        """The first rank's value, on every rank of the engine (collective over them)."""
        if self._group is None:
            return value
        import torch.distributed as dist

        values = [value]
        dist.broadcast_object_list(values, src=self._first, group=self._group)
        return values[0]


def everyone(engine: "Engine", value: Any) -> list[Any]:
    """The values of all ranks, in rank order, on every rank (collective over the world)."""
    if engine.world_size == 1:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * engine.world_size
    dist.all_gather_object(values, value, group=engine.object_group)
    return values
