"""The phases of a run on a time line: `trace.json`, a JSON array of Chrome's trace events, for ui.perfetto.dev.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format").
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pivotrl.disk import naming
from pivotrl.telemetry.metrics import Span

TRACE_FILE = "trace.json"
_END = b"\n]\n"


class Trace:
    """Appends events; between two appends the file is one whole JSON array.

    A run that goes on appends to what it finds: a trace tells what happened, steps that were lost included. What a kill
    left half written is dropped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size < len(_END):
            self._replace([])
        elif not _is_whole(path):
            self._replace(_whole_lines(path))

    def append(self, events: Sequence[dict[str, Any]]) -> None:
        """Add events, one a line, in one write."""
        if not events:
            return
        with open(self._path, "rb+") as file:
            end = file.seek(-len(_END), os.SEEK_END)
            comma = b"" if end == 1 else b","
            lines = b",\n".join(json.dumps(event).encode("ascii") for event in events)
            with naming(self._path):
                file.write(comma + b"\n" + lines + _END)
                file.flush()

    def _replace(self, lines: list[bytes]) -> None:
        temporary = self._path.with_name(self._path.name + ".tmp")
        body = b",\n".join(lines)
        temporary.write_bytes(b"[" + (b"\n" + body if lines else b"") + _END)
        os.replace(temporary, self._path)


def events_of(step: int, ranks: Sequence[tuple[str, Sequence[Span]]]) -> list[dict[str, Any]]:
    """The events of one step: the phases of rank 0, and of each phase the rank that took longest.

    Args:
        step: from 0; the trace counts from 1, as the terminal does.
        ranks: the host's name and the phases of every rank.
    """
    longest: dict[str, tuple[float, int]] = {}
    for rank, (_, spans) in enumerate(ranks):
        for name in dict.fromkeys(span.name for span in spans):
            seconds = sum(span.seconds for span in spans if span.name == name)
            if seconds > longest.get(name, (-1.0, 0))[0]:
                longest[name] = seconds, rank
    events = []
    for rank, (host, spans) in enumerate(ranks):
        shown = [span for span in spans if rank == 0 or longest[span.name][1] == rank]
        if shown:
            name = {"name": f"rank {rank} ({host})"}
            events.append({"name": "process_name", "ph": "M", "pid": rank, "tid": 0, "args": name})
        events += [
            {
                "name": span.name,
                "ph": "X",
                "ts": round(span.began * 1e6),
                "dur": round(span.seconds * 1e6),
                "pid": rank,
                "tid": 0,
                "args": {"step": step + 1},
            }
            for span in shown
        ]
    return events


def _is_whole(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-len(_END), os.SEEK_END)
        return file.read() == _END


def _whole_lines(path: Path) -> list[bytes]:
    """The lines before the first one that is no event."""
    lines: list[bytes] = []
    for line in path.read_bytes().split(b"\n")[1:]:
        line = line.removesuffix(b",")
        try:
            event = json.loads(line)
        except ValueError:
            break
        if not isinstance(event, dict):
            break
        lines.append(line)
    return lines
