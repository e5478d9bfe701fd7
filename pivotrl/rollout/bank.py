"""The rollout bank: finished groups of a step on disk, so that a killed step goes on where it stopped.

`OUTPUT/bank/step_000012/rank_00003.jsonl` holds what one rank wrote, a line for each group, on disk when the group is
done: {"sha256": of the group, "group": {"key", "finish", "tokens", "logprobs", ...}}. The key is a hash of the weights
and of the request, so no group of other weights, of another prompt or of other sampling is ever taken. A line that a
kill tore or a disk changed is left out, and its group is sampled again.
"""

import base64
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from pivotrl.disk import naming, write_all
from pivotrl.policy.agree import together
from pivotrl.policy.routes import Routes
from pivotrl.rollout.records import Request, Sample
from pivotrl.trajectories.store import drop_incomplete_line, dumps, scan_jsonl

if TYPE_CHECKING:
    from pivotrl.rollout.engine import Engine

BANK_FOLDER = "bank"
_STEP = re.compile(r"step_(\d{6,})")


def key_of(weights: str, request: Request) -> str:
    """The name of what `request` gives under `weights`: equal for equal groups only.

    Args:
        weights: a name of the engine's weights, `proof.fingerprint`.
        request: its seed tells draws of one pivot apart.
    """
    decides = [weights, request.prompt_ids, request.n, request.seed, request.temperature, request.top_p]
    decides += [request.max_tokens, request.routes, request.first]
    return hashlib.sha256(dumps(decides).encode("ascii")).hexdigest()[:32]


def generate(
    engine: "Engine",
    requests: Sequence[Request],
    folder: Path,
    step: int,
    finished: Callable[[int, list[Sample]], None] = lambda number, samples: None,
) -> list[list[Sample]]:
    """As `engine.generate_all`, where what the bank has is not sampled again (collective over the world).

    What was sampled before is bit for bit what it was. The rest is sampled from the same seeds, but in smaller batches,
    whose rounding on a GPU may be another one.

    Args:
        folder: `bank` in the run's folder; rank 0 reads all of it, and one rank of each engine writes.
        step: from 0.
        finished: as in `engine.generate_all`; hears nothing of what the bank has.

    Raises:
        ValueError: on every rank, when all is sampled: a group could not be written.
    """

    def look() -> tuple[str, dict[str, list[Sample]]]:
        keys = [key_of(engine.weights, request) for request in requests]
        found, broken = read(folder, step, keys)
        if broken:
            print(f"{step_folder(folder, step)}: {broken} broken groups are sampled again", flush=True)
        if found:
            print(f"step {step + 1}: {len(found)} of {len(requests)} groups come from the bank", flush=True)
        return engine.weights, found

    weights, found = together(engine.object_group, look if engine.rank == 0 else lambda: ("", {}))[0]
    assert weights, "the engine's weights have no name before its first refit"
    keys = [key_of(weights, request) for request in requests]
    missing = [index for index, key in enumerate(keys) if key not in found]
    writer, writes = BankWriter(folder, step, engine.rank), engine.rank % engine.config.tensor == 0
    failures: list[OSError] = []

    def keep(number: int, samples: list[Sample]) -> None:
        if writes and not failures:
            try:
                writer.append(keys[missing[number]], samples)
            except OSError as error:  # the other ranks sample on: they hear of it when they can
                failures.append(error)
        finished(missing[number], samples)

    def settle() -> None:
        writer.close()
        if failures:
            raise failures[0]

    fresh = engine.generate_all([requests[index] for index in missing], keep) if missing else []
    together(engine.object_group, settle)
    sampled = {keys[index]: samples for index, samples in zip(missing, fresh, strict=True)} | found
    return [sampled[key] for key in keys]


class BankWriter:
    """Appends the groups that this rank's engine finishes."""

    def __init__(self, folder: Path, step: int, rank: int) -> None:
        """
        Args:
            folder: `bank` in the run's folder; made at the first group, as is the file.
            step: the step that samples, from 0.
        """
        self._path = step_folder(folder, step) / f"rank_{rank:05d}.jsonl"
        self._file: IO[bytes] | None = None

    def append(self, key: str, samples: Sequence[Sample]) -> None:
        """Add a finished group; on disk when this returns. Raises OSError."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists():
                drop_incomplete_line(self._path)
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
        group = {"key": key} | _pack(samples)
        with naming(self._path):
            write_all(self._file, (dumps({"sha256": _checksum(group), "group": group}) + "\n").encode("ascii"))
            os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read(folder: Path, step: int, keys: Sequence[str]) -> tuple[dict[str, list[Sample]], int]:
    """The groups of a step that the bank has, by their keys, and how many lines were broken.

    A group that two attempts wrote counts once. A torn last line is no broken one.
    """
    wanted, found, broken = set(keys), {}, 0
    for path in sorted(step_folder(folder, step).glob("rank_*.jsonl")):
        torn = not path.read_bytes().endswith(b"\n")
        faults = 0
        for _, row, _ in scan_jsonl(path):
            try:
                group = row["group"]
                if row["sha256"] != _checksum(group):
                    raise ValueError("another checksum")
                if group["key"] in wanted:
                    found.setdefault(group["key"], _unpack(group))
            except (TypeError, KeyError, ValueError):
                faults += 1
        broken += faults - (1 if torn and faults else 0)
    return found, broken


def forget_before(folder: Path, step: int) -> None:
    """Remove the steps before `step`, whose updates a checkpoint holds."""
    for path in folder.glob("step_*"):
        match = _STEP.fullmatch(path.name)
        if match and int(match[1]) < step:
            shutil.rmtree(path)


def step_folder(folder: Path, step: int) -> Path:
    return folder / f"step_{step:06d}"


def _checksum(group: Mapping[str, Any]) -> str:
    return hashlib.sha256(dumps(group).encode("ascii")).hexdigest()


def _pack(samples: Sequence[Sample]) -> dict[str, Any]:
    packed: dict[str, Any] = {
        "finish": [sample.finish for sample in samples],
        "tokens": [_to_text(np.asarray(sample.token_ids, "<i4")) for sample in samples],
        "logprobs": [_to_text(_floats(sample.logprobs)) for sample in samples],
    }
    routes = [sample.routes for sample in samples]
    if routes and all(one is not None for one in routes):
        packed["prompt_routes"] = _to_text(routes[0].prompt)
        packed["routes"] = [_to_text(one.response) for one in routes]
    return packed


def _unpack(group: Mapping[str, Any]) -> list[Sample]:
    routes: list[Routes | None] = [None] * len(group["finish"])
    if "routes" in group:
        prompt = _from_text(group["prompt_routes"])
        routes = [Routes(prompt, _from_text(text)) for text in group["routes"]]
    return [
        Sample(_from_text(tokens).tolist(), _from_text(logprobs).tolist(), finish, route)
        for tokens, logprobs, finish, route in zip(
            group["tokens"], group["logprobs"], group["finish"], routes, strict=True
        )
    ]


def _floats(values: Sequence[float]) -> np.ndarray:
    """The engine's numbers are float32; what is not is kept as float64."""
    exact = np.asarray(values, "<f8")
    short = exact.astype("<f4")
    return short if np.array_equal(short.astype("<f8"), exact) else exact


def _to_text(array: np.ndarray) -> list[Any]:
    return [array.dtype.str, list(array.shape), base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")]


def _from_text(packed: Sequence[Any]) -> np.ndarray:
    kind, shape, text = packed
    return np.frombuffer(base64.b64decode(text, validate=True), np.dtype(kind)).reshape(shape)
