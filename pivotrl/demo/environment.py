"""The desk as an `Environment`: the streams of `make_task`, and the expert's outcome as the reward."""

from pivotrl.demo.expert import success
from pivotrl.demo.tasks import make_task
from pivotrl.demo.world import Desk
from pivotrl.environment import Observation


class DeskEnvironment:
    """Reward 1 where the dialog did the whole task (`expert.success`), else 0."""

    def __init__(self, stream: str) -> None:
        """`stream` is any name; the demo's trajectories are of `train`, its live tasks of `live`."""
        self._stream = stream
        self.desk: Desk | None = None
        """The dialog that is played."""

    def reset(self, task: int) -> Observation:
        self.desk = Desk(make_task(self._stream, task))
        return self._observe()

    def step(self, items: list[dict]) -> Observation:
        self.desk.step(items)
        return self._observe()

    def abandon(self) -> Observation:
        self.desk.hang_up()
        return self._observe()

    def facts(self) -> dict[str, float]:
        """What an evaluation reports besides the reward: whether the dialog broke a rule."""
        return {"violations": float(bool(self.desk.outcome.violations))}

    def _observe(self) -> Observation:
        done = self.desk.done
        return Observation(list(self.desk.messages), self.desk.tools, done, float(done and success(self.desk)))
