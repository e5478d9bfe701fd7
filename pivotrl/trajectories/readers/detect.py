"""Which format a file has, told from its content, and the reader for it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pivotrl.trajectories.faults import Place, RowFault, excerpt
from pivotrl.trajectories.readers import atif, mini_swe_agent, nemo_gym, openai_chat, sharegpt, swe_agent, tau_bench
from pivotrl.trajectories.records import Rejected, Tool, Trajectory
from pivotrl.trajectories.store import is_message, scan_rows
from pivotrl.trajectories.text import check_characters, check_depth

ReadRow = Callable[[dict[str, Any], int, Place, list[Tool]], Trajectory]
"""A row, its 0-based place among the file's rows, where it stands, and the tools for rows that carry none."""
READERS: dict[str, ReadRow] = {
    "openai_chat": openai_chat.read_row,
    "tau_bench": tau_bench.read_row,
    "nemo_gym": nemo_gym.read_row,
    "swe_agent": swe_agent.read_row,
    "mini_swe_agent": mini_swe_agent.read_row,
    "atif": atif.read_row,
    "sharegpt": sharegpt.read_row,
}
MARKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "nemo_gym": lambda row: "responses_create_params" in row,
    "atif": atif.is_row,
    "swe_agent": swe_agent.is_row,
    "tau_bench": lambda row: "traj" in row,
    "sharegpt": sharegpt.is_row,
    "mini_swe_agent": mini_swe_agent.is_row,
    "openai_chat": lambda row: "messages" in row,
}
"""What tells each format apart, asked in this order."""
ROWS_TO_LOOK_AT = 100


def format_of_row(row: Any) -> str | None:
    """The format that a row looks like; None where it looks like none."""
    row = as_object(row)
    if not isinstance(row, dict):
        return None
    return next((name for name, has_mark in MARKS.items() if has_mark(row)), None)


def detect_format(path: str | Path) -> str:
    """A key of READERS, by the first row that looks like one.

    Raises ValueError, with what the file begins with, where none of the first rows does.
    """
    found = "an empty file"
    for number, (_, row, fault) in enumerate(scan_rows(path)):
        if name := format_of_row(row):
            return name
        if number == 0:
            found = f"keys {excerpt(sorted(row))}" if isinstance(row, dict) else fault or excerpt(row)
        if number == ROWS_TO_LOOK_AT:
            break
    raise ValueError(
        f"{path}: format not recognised (first row: {found}); write JSON Lines with messages and tools, a tau-bench "
        "result, NeMo-Gym rows, a trajectory of SWE-agent or mini-swe-agent, ATIF, or ShareGPT conversations, or name "
        f"the format as trajectories.format={'|'.join(READERS)}"
    )


def formats_of(paths: Sequence[str], format: str) -> list[tuple[str, str]]:
    """Each path with its format, which is `format`, or told from the content where that is `auto`."""
    return [(path, detect_format(path) if format == "auto" else format) for path in paths]


def read_file(path: str | Path, format: str, tools: list[Tool]) -> Iterator[Trajectory | Rejected]:
    """Every row of a file as a trajectory, or as the record of what is wrong with it; one row is held at a time.

    Args:
        path: the file.
        format: a key of READERS.
        tools: for rows that carry none.
    """
    name = Path(path).name
    for index, (where, row, fault) in enumerate(scan_rows(path)):
        try:
            row = _object(row, fault)
            check_depth(row, "the row")
            trajectory = READERS[format](row, index, Place(name, where), tools)
            check_characters(row, "the row")
            yield trajectory
        except RowFault as error:
            yield error.at(Place(name, where))


def as_object(row: Any) -> Any:
    """A row that is a bare list of chat messages, as `{"messages": [...]}`; any other as it is."""
    return {"messages": row} if isinstance(row, list) and row and is_message(row[0]) else row


def _object(row: Any, fault: str) -> dict[str, Any]:
    if fault:
        raise RowFault("malformed_json", fault, "write one JSON object a line")
    row = as_object(row)
    if not isinstance(row, dict):
        raise RowFault("malformed_json", f"a {type(row).__name__}", "write one JSON object a row")
    return row
