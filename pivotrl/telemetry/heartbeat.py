"""`heartbeat.json`: what a run is doing now, for whoever watches it from outside."""

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

HEARTBEAT_FILE = "heartbeat.json"


class Heartbeat:
    """Replaces the file every few seconds, on a thread.

    An old `time` says that the process is gone; a new `time` and an old `since`, that the phase hangs.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        """
        Args:
            path: the file; its folder is made.
            seconds: between two writings.
        """
        self._path, self._seconds = path, seconds
        self._lock, self._end = threading.Lock(), threading.Event()
        self._now: dict[str, Any] = {"step": None, "phase": "start", "since": time.time()}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def enter(self, step: int, phase: str) -> None:
        """A phase of a step (from 0; the file counts from 1, as the terminal does) begins. Writes nothing."""
        with self._lock:
            self._now = {"step": step + 1, "phase": phase, "since": time.time()}

    def close(self, phase: str) -> None:
        """Write a last time: `phase` is how the run ended."""
        self._end.set()
        self._thread.join()
        self._now |= {"phase": phase, "since": time.time()}
        self._write()

    def _beat(self) -> None:
        while not self._end.wait(self._seconds):
            self._write()

    def _write(self) -> None:
        with self._lock:
            now = {"time": time.time(), **self._now, "pid": os.getpid(), "host": socket.gethostname()}
        temporary = self._path.with_name(self._path.name + ".tmp")
        # On a full disk the run's own writes speak and end it; from here an error would end the thread, or stand in
        # for the one that the run ends with. An old `time` says enough.
        with contextlib.suppress(OSError):
            temporary.write_text(json.dumps(now) + "\n", encoding="ascii")
            os.replace(temporary, self._path)
