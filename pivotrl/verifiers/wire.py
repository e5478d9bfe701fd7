"""What a pool and its workers say to each other: JSON Lines over pipes, and what counts as a verdict.

Pool to worker: a `Hello` once; then, for each run of jobs that share a turn, an object (the shared half) and for each
of them an array `[items, text]`. The K samples of a turn share a history of maybe 100 kB, which so crosses once.
Worker to pool: arrays, one a line: `["ready"]` or `["refused", message]` once, then for each job, in order,
`[reward, reason, detail]`, `["params", message]` where a row's parameters are unusable, or `["back"]` where the job
cannot be read there.

Nothing is pickled. Text crosses exactly, lone surrogates included, and so do NaN and infinities. What JSON cannot hold
(bytes, nesting beyond the stack, integers of thousands of digits) was never JSON, so no parser found it in a
completion; `encode` refuses it.
"""

import json
import math
from typing import Any, NamedTuple

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.raised import place_of

LONGEST_DETAIL = 1000
"""Characters of a verdict's detail that are kept: it is one line for a person."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


class Hello(NamedTuple):
    """How a worker begins."""

    path: list[str]
    """The pool's `sys.path`, so that the user's own class is found."""
    config: dict[str, Any]
    """A `VerifierConfig`."""
    seconds: float
    """Of one verdict, after which the worker ends itself, should the pool be gone."""


class BadParams(ValueError):
    """A row's `verifier.params` are unknown or unusable: the user's mistake, whatever the model wrote."""


def encode(value: Any) -> bytes:
    """One line. Raises ValueError, TypeError or RecursionError where JSON cannot hold the value."""
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass") + b"\n"


def decode(line: bytes) -> Any:
    """The inverse of `encode`."""
    return json.loads(line.decode("utf-8", "surrogatepass"))


def shared_half(attempt: Attempt, params: dict[str, Any] | None) -> tuple[Any, ...]:
    """What the samples of a turn have in common."""
    return attempt.expert, attempt.tools, attempt.messages, attempt.metadata, params


def same(one: tuple[Any, ...] | None, other: tuple[Any, ...]) -> bool:
    """Whether two shared halves are the same objects, or empty alike: quick, and true for the samples of a turn."""
    return one is not None and all(a is b or (not a and a == b) for a, b in zip(one, other))


def encode_shared(shared: tuple[Any, ...]) -> bytes:
    return encode(dict(zip(("expert", "tools", "messages", "metadata", "params"), shared)))


def judge_one(verifier: Verifier, attempt: Attempt, params: dict[str, Any] | None) -> Verdict:
    """`verifier.verify`, held to its promise: what it raises because of an attempt is the verdict `verifier_error`, and
    so is what it returns where that is no verdict.

    Takes any attempt. Raises BadParams where the verifier refuses `params` for an empty attempt too.
    """
    try:
        verdict = verifier.verify(attempt, params)
    except ValueError as error:
        _check_params(verifier, attempt, params)
        return _fault(verifier, error)
    except (Exception, SystemExit) as error:  # the verifier's bug, and one of many jobs: it is counted, not fatal
        return _fault(verifier, error)
    reward, reason, detail = (getattr(verdict, name, None) for name in ("reward", "reason", "detail"))
    if not (isinstance(reward, int | float) and math.isfinite(reward) and 0 <= reward <= 1):
        return Verdict(0.0, "verifier_error", f"a reward in [0, 1] was due, not {ascii(verdict)[:200]}")
    if not (isinstance(reason, str) and reason and isinstance(detail, str)):
        return Verdict(0.0, "verifier_error", f"a reason and a detail were due, not {ascii(verdict)[:200]}")
    return Verdict(float(reward), reason, detail[:LONGEST_DETAIL])


def _check_params(verifier: Verifier, attempt: Attempt, params: dict[str, Any] | None) -> None:
    if not params:
        return
    expert, tools, messages, metadata, _ = shared_half(attempt, params)
    try:
        verifier.verify(Attempt(expert, [], None, tools, messages, metadata), params)
    except ValueError as error:
        raise BadParams(str(error)) from None
    except Exception:
        return


def _fault(verifier: Verifier, error: BaseException) -> Verdict:
    """`KeyError: 'name' (mine.py:12)`."""
    place = place_of(error, type(verifier).__module__)
    said = f"{type(error).__name__}: {ascii(str(error))[1:-1][:200]}"
    return Verdict(0.0, "verifier_error", f"{said} ({place})" if place else said)
