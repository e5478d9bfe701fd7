"""Tools for files whose rows carry none: the smallest schemas that admit the calls found in them."""

from collections.abc import Iterator

from pivotrl.trajectories.readers.detect import read_file
from pivotrl.trajectories.records import Message, Rejected, Tool
from pivotrl.trajectories.tools import infer_tools

BY_FILE = ("tau_bench",)
"""One file is one domain, of many trajectories."""
BY_FORMAT = ("swe_agent", "atif")
"""One file is one trajectory, and its own calls would tell too much: all files of the format are taken together."""


class InferredTools:
    """The tools of each file, found when they are first asked for, in one more pass over the files that matter."""

    def __init__(self, formats: list[tuple[str, str]]):
        """`formats`: each file of the run with its format."""
        self._formats = formats
        self._found: dict[tuple[str, ...], list[Tool]] = {}

    def of_file(self, path: str, format: str) -> list[Tool]:
        """Schemas inferred from all well-formed calls, successes and failures alike; none for formats whose rows carry
        their tools."""
        if format in BY_FILE:
            paths = (path,)
        elif format in BY_FORMAT:
            paths = tuple(other for other, its_format in self._formats if its_format == format)
        else:
            return []
        if paths not in self._found:
            self._found[paths] = infer_tools(_conversations(paths, format))
        return self._found[paths]


def _conversations(paths: tuple[str, ...], format: str) -> Iterator[list[Message]]:
    for path in paths:
        for item in read_file(path, format, []):
            if not isinstance(item, Rejected) and not item.tools:  # a bad row is told of when the file itself is read
                yield item.messages
