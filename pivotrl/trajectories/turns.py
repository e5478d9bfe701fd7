"""From files to candidates: every assistant turn of every trajectory that the user wants, streamed."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pivotrl.trajectories.actions import action_of
from pivotrl.trajectories.config import TrajectoriesConfig
from pivotrl.trajectories.faults import Place, RowFault
from pivotrl.trajectories.ids import DistinctIds, split_of
from pivotrl.trajectories.readers.detect import formats_of, read_file
from pivotrl.trajectories.readers.inferred import InferredTools
from pivotrl.trajectories.records import Action, Rejected, Trajectory, Turn
from pivotrl.trajectories.tools import load_tools


class TurnReader:
    """One pass over the user's files. Iterating yields turns and rejections in file order; the counts are whole
    afterwards.

    Ids are `file stem:trajectory id/turn index`, made distinct by a suffix where a file repeats itself, and therefore
    the same in every pass. Memory stays flat but for one integer per id.
    """

    def __init__(self, config: TrajectoriesConfig, seed: int):
        self.config, self.seed = config, seed
        self.rows = self.bad_rows = self.trajectories = self.turns = 0
        self.filtered: Counter[str] = Counter()
        """Trajectories left out at the user's wish, by reason; they are not faults."""
        self.rejected: Counter[str] = Counter()
        """Rows and turns that cannot be used, by reason."""

    def __iter__(self) -> Iterator[Turn | Rejected]:
        for item in self.read_trajectories():
            if isinstance(item, Rejected):
                yield item
                continue
            faults = 0
            for turn in self.turns_of(item):
                faults += isinstance(turn, Rejected)
                yield turn
            self.bad_rows += faults > 0

    def read_trajectories(self) -> Iterator[Trajectory | Rejected]:
        """Whole trajectories that pass the user's filter, with distinct ids that begin with the file's stem."""
        if not self.config.files:
            raise ValueError("trajectories.files: no file is given; write trajectories.files: [path, ...]")
        given = load_tools(self.config.tools) if self.config.tools else None
        formats = formats_of(self.config.files, self.config.format)
        inferred = InferredTools(formats)
        self._trajectory_ids, self._turn_ids = DistinctIds(), DistinctIds()
        for path, format in formats:
            stem = Path(path).name.split(".")[0]
            for item in read_file(path, format, inferred.of_file(path, format) if given is None else given):
                self.rows += 1
                if isinstance(item, Trajectory):
                    item = self._checked(item)
                if isinstance(item, Rejected):
                    self.bad_rows += 1
                    self.rejected[item.reason] += 1
                    yield item
                elif item is not None:
                    self.trajectories += 1
                    name = f"{stem}:{item.id}"
                    yield replace(item, id=name if item.expert else self._trajectory_ids(name))

    def turns_of(self, trajectory: Trajectory) -> Iterator[Turn | Rejected]:
        """Every assistant turn of one trajectory, or the one turn that its row is."""
        split = split_of(trajectory.group or trajectory.id, self.seed, self.config.heldout_share)
        roles = [message["role"] for message in trajectory.messages]
        places = [index for index, role in enumerate(roles) if role == "assistant" and index not in trajectory.context]
        if trajectory.expert:
            self.turns += 1
            yield self._turn(trajectory, len(places), 0, len(roles), trajectory.expert, split)
            return
        for turn_index, place in enumerate(places):
            self.turns += 1
            try:
                expert = action_of(trajectory.messages[place])
            except RowFault as fault:
                self.rejected[fault.reason] += 1
                fault.inside = f"message {place}"
                yield fault.at(Place(trajectory.file, trajectory.row), f"{trajectory.id}/{turn_index}")
                continue
            yield self._turn(trajectory, turn_index, len(places), place, expert, split)

    def check_bad_share(self, limit: float) -> None:
        """Raise ValueError where more than `limit` of the rows of a finished pass were bad, or there was no row at
        all."""
        if not self.rows:
            raise ValueError(f"{', '.join(self.config.files)}: no rows; give files that hold trajectories")
        share = self.bad_rows / self.rows
        if share > limit:
            reasons = ", ".join(f"{reason} {count}" for reason, count in self.rejected.most_common())
            raise ValueError(
                f"{self.bad_rows} of {self.rows} rows are bad ({share:.1%}: {reasons}), "
                f"more than pivots.max_bad_share={limit}; "
                "repair the rows listed in rejected.jsonl, or raise pivots.max_bad_share"
            )

    def _checked(self, trajectory: Trajectory) -> Trajectory | Rejected | None:
        """The trajectory, or why it is bad, or None where the user's filter leaves it out."""
        place = Place(trajectory.file, trajectory.row)
        turns = sum(message["role"] == "assistant" for message in trajectory.messages) - len(trajectory.context)
        if not trajectory.expert and not turns:
            write = "write at least one message of role assistant"
            return RowFault("no_assistant_turn", f"{len(trajectory.messages)} messages", write).at(place)
        if self.config.min_reward is not None:
            if trajectory.reward is None:
                write = "write the episode's reward in the row, or leave trajectories.min_reward out"
                return RowFault("no_reward", "min_reward is set and the row has no reward", write).at(place)
            if trajectory.reward < self.config.min_reward:
                self.filtered["below_min_reward"] += 1
                return None
        return trajectory

    def _turn(self, trajectory: Trajectory, index: int, n_turns: int, place: int, expert: Action, split: str) -> Turn:
        return Turn(
            id=self._turn_ids(f"{trajectory.id}/{index}"),
            trajectory_id=trajectory.id,
            turn_index=index,
            n_turns=n_turns,
            messages=trajectory.messages[:place],
            tools=trajectory.tools,
            expert=expert,
            verifier=trajectory.verifier if self.config.row_verifiers else {},
            source=str(Place(trajectory.file, trajectory.row)),
            split=split,
            metadata=trajectory.metadata,
        )
