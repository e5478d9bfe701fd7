"""What a judge answered, and what it cost."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer."""

    text: str | None
    """None where the answer was cut off, or the question refused."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    refused: bool = False
    """The question did not fit, or was not liked; another server might answer it."""


class Usage:
    """Counters that threads may add to."""

    def __init__(self, price_in: float, price_out: float):
        """Prices are of a million tokens."""
        self._price_in, self._price_out = price_in, price_out
        self._lock = threading.Lock()
        self._questions = self._cache_hits = self._prompt_tokens = self._completion_tokens = 0

    def asked(self, completion: Completion) -> None:
        """One question that was answered by the judge."""
        with self._lock:
            self._questions += 1
            self._prompt_tokens += completion.prompt_tokens
            self._completion_tokens += completion.completion_tokens

    def found(self, hits: int) -> None:
        """Questions that were answered by the cache."""
        with self._lock:
            self._cache_hits += hits

    def counted(self) -> dict[str, float]:
        """Everything so far."""
        with self._lock:
            price = (self._prompt_tokens * self._price_in + self._completion_tokens * self._price_out) / 1e6
            return {
                "questions": self._questions,
                "cache_hits": self._cache_hits,
                "prompt_tokens": self._prompt_tokens,
                "completion_tokens": self._completion_tokens,
                "price": price,
            }
