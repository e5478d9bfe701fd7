"""Which format a file has, told from its content, and the reader for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.readers import nemo_gym, openai_chat, tau_bench
from pivotrl.trajectories.records import Rejected, Tool, Trajectory
from pivotrl.trajectories.store import scan_rows
from pivotrl.trajectories.text import check_characters, check_depth

READERS = {"openai_chat": openai_chat.read_row, "tau_bench": tau_bench.read_row, "nemo_gym": nemo_gym.read_row}
MARKS = {"responses_create_params": "nemo_gym", "traj": "tau_bench", "messages": "openai_chat"}
"""The key that tells each format apart."""
ROWS_TO_LOOK_AT = 100


def detect_format(path: str | Path) -> str:
    """`openai_chat`, `tau_bench` or `nemo_gym`, by the first row that has a tell-tale key.

    Raises ValueError, with what the file begins with, where none of the first rows has one.
    """
    found = "an empty file"
    for number, (_, row, fault) in enumerate(scan_rows(path)):
        if isinstance(row, dict):
            for key, name in MARKS.items():
                if key in row:
                    return name
        if number == 0:
            found = f"keys {excerpt(sorted(row))}" if isinstance(row, dict) else fault or excerpt(row)
        if number == ROWS_TO_LOOK_AT:
            break
    raise ValueError(
        f"{path}: format not recognised (first row: {found}); write JSON Lines with messages and tools, a tau-bench "
        f"result or NeMo-Gym rows, or name the format as trajectories.format={'|'.join(READERS)}"
    )


def read_file(path: str | Path, format: str, tools: list[Tool] | None) -> Iterator[Trajectory | Rejected]:
    """Every row of a file as a trajectory, or as the record of what is wrong with it; one row is held at a time.

    Args:
        path: the file.
        format: `auto` or a key of READERS.
        tools: for rows that carry none; None where the user gave none.
    """
    name = Path(path).name
    format = detect_format(path) if format == "auto" else format
    if tools is None:
        tools = tau_bench.tools_of_file(path) if format == "tau_bench" else []
    for index, (where, row, fault) in enumerate(scan_rows(path)):
        try:
            row = _object(row, fault)
            check_depth(row, "the row")
            trajectory = READERS[format](row, index, Place(name, where), tools)
            check_characters(row, "the row")
            yield trajectory
        except RowFault as error:
            yield error.at(Place(name, where))


def _object(row: Any, fault: str) -> dict[str, Any]:
    if fault:
        raise RowFault("malformed_json", fault, "write one JSON object a line")
    if not isinstance(row, dict):
        raise RowFault("malformed_json", f"a {type(row).__name__}", "write one JSON object a row")
    return row
