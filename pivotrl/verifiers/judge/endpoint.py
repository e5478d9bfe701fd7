"""Questions to a server that speaks OpenAI's chat completions."""

import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from pivotrl.trajectories.faults import excerpt
from pivotrl.verifiers.judge.deadline import Deadline
from pivotrl.verifiers.judge.params import JudgeParams
from pivotrl.verifiers.judge.usage import Completion

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before the first retry, doubled for each further one up to the longest."""
LONGEST_RESPONSE = 16_000_000
"""Bytes of a response that are read. It is asked for unpacked, and never unpacked here."""
MOST_TOKENS = 2**40
"""Tokens of one answer that are counted."""
_RETRIED = {408, 429}
_OF_CONTENT = ("context length", "context window", "context_length", "too long", "too large")
_OF_CONTENT += ("maximum length", "content_filter", "content management", "content policy", "safety", "moderation")
"""What servers say when they refuse a question for what it holds. Not `max_tokens`: a server that does not know this
parameter refuses all."""


class JudgeUnreachable(ValueError):
    """The judge gave no answer at all: an operator's problem, which never becomes a reward."""


class Endpoint:
    """A judge behind a URL; threads may ask at a time."""

    def __init__(self, params: JudgeParams, first_wait: float = FIRST_WAIT):
        """Raises ValueError where the key's environment variable is not set, or the URL is none."""
        self._params, self._first_wait = params, first_wait
        self._has_answered = False
        self._url = params.endpoint.rstrip("/") + "/chat/completions"
        headers = {"Accept-Encoding": "identity"}
        self._key = _key(params.api_key_env) if params.api_key_env is not None else ""
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            address = urlsplit(self._url)
            host = address.hostname or ""
            httpx.URL(self._url)
        except (ValueError, httpx.InvalidURL) as error:
            raise ValueError(
                f"verifier.params.endpoint: {params.endpoint!r} is no URL ({error}); write http://host:port/v1"
            ) from None
        if "@" in address.netloc:
            raise ValueError(
                "verifier.params.endpoint: holds a user name or a password, which errors would show; export the key, "
                "and write its variable's name as api_key_env"
            )
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(params.timeout, pool=None),
            limits=httpx.Limits(max_connections=params.concurrency, max_keepalive_connections=0),  # see deadline.py
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),  # a proxy does not know this machine's own servers
        )

    def ask(self, prompt: str, choices: tuple[str, str]) -> Completion:
        """The answer to one prompt.

        Args:
            prompt: a user's message.
            choices: the answers that a guided judge chooses from.

        Raises JudgeUnreachable where there is none after all retries.
        """
        body: dict[str, Any] = {
            "model": self._params.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self._params.max_tokens,
            "temperature": self._params.temperature,
        }
        if self._params.guided:
            body["structured_outputs"] = {"choice": list(choices)}
        for attempt in range(self._params.retries + 1):
            if attempt:
                time.sleep(min(self._first_wait * 2 ** (attempt - 1), LONGEST_WAIT))
            try:
                status, content = self._post(body)
            except httpx.RequestError as error:
                found = self._without_key(_one_line(error))
                remedy = "start the server, or correct verifier.params.endpoint"
                continue
            if status == 200:
                completion = _read(content)
                if completion is not None:
                    self._has_answered = True
                    return completion
                found = f"no chat completion but {self._text(content)}"
                remedy = "name an OpenAI-compatible /v1 endpoint"
                continue
            if status in (400, 413, 422) and (
                self._has_answered or any(sign in _lower(content) for sign in _OF_CONTENT)
            ):
                return Completion(None, refused=True)  # what a model wrote must not stop a run that works
            found, remedy = f"HTTP {status} {self._text(content)}", _remedy(status)
            if status not in _RETRIED and status < 500:
                break
        raise JudgeUnreachable(
            f"verifier.params.endpoint: the judge {self._params.model!r} at {self._url} gave no answer in "
            f"{attempt + 1} tries; the last one found {found}; {remedy}"
        )

    def close(self) -> None:
        self._client.close()

    def _post(self, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and content. The time-out is for the whole of it: a server that sends a byte now and then is late."""
        received = bytearray()
        with Deadline(self._params.timeout) as deadline:
            try:
                trace = {"trace": deadline.watch}
                with self._client.stream("POST", self._url, json=body, extensions=trace) as response:
                    for chunk in response.iter_raw():
                        received += chunk
                        if len(received) > LONGEST_RESPONSE:
                            raise httpx.ReadError(f"an answer of more than {LONGEST_RESPONSE} bytes")
            except httpx.RequestError:
                if not deadline.over:
                    raise
            if deadline.over:
                raise httpx.ReadTimeout(f"no whole answer within {self._params.timeout:g} s")
        return response.status_code, bytes(received)

    def _text(self, content: bytes) -> str:
        return excerpt(self._without_key(content.decode("utf-8", "replace")), 200)

    def _without_key(self, text: str) -> str:
        """Text of a server, which may repeat the key that it was sent."""
        return text.replace(self._key, "(the key)") if self._key else text


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ValueError(
            f"verifier.params.api_key_env: the environment variable {variable!r} is not set; export it with the "
            "endpoint's key, or leave the parameter out"
        )
    if not (key.isascii() and key.isprintable()):  # HTTP would refuse it, in a message that shows it
        raise ValueError(
            f"verifier.params.api_key_env: what the environment variable {variable!r} holds is no key (other letters "
            "than ASCII, or line breaks); export the key alone"
        )
    return key


def _read(content: bytes) -> Completion | None:
    """None where the content is no chat completion."""
    try:
        answer = json.loads(content)
        choice, usage = answer["choices"][0], answer.get("usage") or {}
        text = choice["message"].get("content") or ""
        counts = [min(int(usage.get(name) or 0), MOST_TOKENS) for name in ("prompt_tokens", "completion_tokens")]
    except (ArithmeticError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    if not isinstance(text, str):
        return None
    return Completion(None if choice.get("finish_reason") == "length" else text, *counts)


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "set verifier.params.api_key_env to the variable that holds the endpoint's key"
    if status == 404:
        return "correct verifier.params.model, or the path of verifier.params.endpoint (it ends with /v1)"
    if status == 429 or status >= 500:
        return "lower verifier.params.concurrency, or look into the server's log"
    return "look at what the server says of the request"


def _lower(content: bytes) -> str:
    return content.decode("utf-8", "replace").lower()


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__} ({' '.join(str(error).split())})"
