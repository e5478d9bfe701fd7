"""A limit on the whole time of an HTTP request. httpx limits each wait for a byte alone, so that a server which sends
one now and then, of a header too, is waited for without end."""

import contextlib
import socket
import threading
from typing import Any, Self


class Deadline:
    """A context manager: when its time is over, the connection that was made inside is shut down.

    `watch` is a request's extension `trace`, and sees connections only as they are made: the client must keep none
    alive.
    """

    def __init__(self, seconds: float):
        self.over = False
        """Whether the time was over, so that whatever fault the request met is that."""
        self._lock = threading.Lock()
        self._stream: Any = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._stream = None

    def watch(self, event: str, info: dict[str, Any]) -> None:
        """Called by httpcore for each step of a request."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            with self._lock:
                self._stream = info["return_value"]
                if self.over:
                    self._shut()

    def _end(self) -> None:
        with self._lock:
            self.over = True
            self._shut()

    def _shut(self) -> None:
        found = self._stream.get_extra_info("socket") if self._stream is not None else None
        if isinstance(found, socket.socket):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(found, socket.SHUT_RDWR)  # an SSLSocket's own would talk to the other side
