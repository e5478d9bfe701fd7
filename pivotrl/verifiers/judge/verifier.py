"""`judge`: a language model says whether two actions are equivalent.

What needs no judge is decided first (`case.settle`): malformed output, a call where a message is expected, a tool that
does not exist, equal actions. Of the rest the judge is asked once for each order of the two actions; both answers must
be SAME for a reward. Reasons: those of `case.settle`, and

- judge_same (reward 1), judge_different;
- judge_disagrees: the verdict depends on the order;
- judge_unclear: an answer holds no verdict, or one that is not in the exact form (`question`).

A judge that gives no answer is no verdict: `JudgeUnreachable` is raised, and the run stops.
"""

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, ClassVar

from pivotrl.verifiers.attempt import Attempt
from pivotrl.verifiers.base import Verdict, Verifier
from pivotrl.verifiers.judge.cache import AnswerCache, Kept
from pivotrl.verifiers.judge.case import Case, settle
from pivotrl.verifiers.judge.endpoint import Endpoint
from pivotrl.verifiers.judge.params import ENGINE, OF_ROWS, JudgeParams
from pivotrl.verifiers.judge.question import RUBRIC, Answer, Question
from pivotrl.verifiers.judge.usage import Completion, Usage
from pivotrl.verifiers.params import Overridable

Ask = Callable[[list[str], int], Sequence[Completion | str]]
"""Answers prompts, in order, with so many tokens each at most; plain text where tokens are not counted."""


class JudgeVerifier(Verifier):
    """See the module's docstring."""

    in_pool: ClassVar[bool] = False

    def __init__(self, params: dict[str, Any]):
        """Raises ValueError for unusable parameters, a key that is not set, and a cache that cannot be used."""
        self._params = Overridable(JudgeParams, params)
        run = self._params.default
        self._endpoint = Endpoint(run) if run.endpoint != ENGINE else None
        self._cache = AnswerCache(run.cache) if run.cache is not None else None
        self._secret = self._cache.secret() if self._cache else secrets.token_bytes(32)
        self._usage = Usage(run.price_in, run.price_out)
        self._ask: Ask | None = None

    def attach(self, ask: Ask) -> None:
        """Give `endpoint: engine` its engine; other endpoints have no use for it."""
        self._ask = ask

    def usage(self) -> dict[str, float]:
        """Questions asked, answers found in the cache, tokens, and their price."""
        return self._usage.counted()

    def close(self) -> None:
        """Close connections and the cache."""
        for part in (self._endpoint, self._cache):
            if part is not None:
                part.close()

    def verify(self, attempt: Attempt, params: dict[str, Any] | None = None) -> Verdict:
        return self.verify_all([(attempt, params)])[0]

    def verify_all(self, attempts: Sequence[tuple[Attempt, dict[str, Any] | None]]) -> list[Verdict]:
        """Judge many: every question that differs from the others is asked once, `concurrency` at a time.

        Raises JudgeUnreachable, and ValueError for a parameter that a row may not set.
        """
        settled: list[Verdict | list[Question]] = []
        for attempt, params in attempts:
            settings = self._of_row(params)
            found = settle(attempt, settings.thinking)
            settled.append(_questions(found, settings) if isinstance(found, Case) else found)
        questions = {question.key: question for case in settled if isinstance(case, list) for question in case}
        answers = self._answers(questions)
        return [
            case if isinstance(case, Verdict) else _verdict([answers[question.key] for question in case])
            for case in settled
        ]

    def _of_row(self, params: dict[str, Any] | None) -> JudgeParams:
        for name in params or ():
            if name not in OF_ROWS:
                raise ValueError(
                    f"verifier.params.{name}: a row may not set it for judge; write it in the run's parameters (a row "
                    f"may set {', '.join(OF_ROWS)})"
                )
        return self._params.of_row(params)

    def _answers(self, questions: dict[str, Question]) -> dict[str, Answer]:
        kept = self._cache.find(questions) if self._cache else {}
        self._usage.found(len(kept))
        answers = {key: found.answer for key, found in kept.items()}
        missing = {key: question for key, question in questions.items() if key not in answers}
        if missing:
            answers |= self._asked_engine(missing) if self._endpoint is None else self._asked(missing, self._endpoint)
        return answers

    def _asked(self, questions: dict[str, Question], endpoint: Endpoint) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        executor = ThreadPoolExecutor(min(self._params.default.concurrency, len(questions)))
        try:
            futures = {
                executor.submit(endpoint.ask, question.prompt(self._secret), question.lines(self._secret)): key
                for key, question in questions.items()
            }
            for future in as_completed(futures):
                key, completion = futures[future], future.result()
                answers[key] = self._read(questions[key], completion)
                if self._cache is not None and not completion.refused:
                    counts = completion.prompt_tokens, completion.completion_tokens
                    self._cache.keep(key, Kept(answers[key], *counts))
        finally:
            executor.shutdown(cancel_futures=True)  # after a fault, what is not under way is not asked any more
        return answers

    def _asked_engine(self, questions: dict[str, Question]) -> dict[str, Answer]:
        if self._ask is None:
            raise ValueError(
                "verifier.params.endpoint: `engine` has no engine here; write the http://host:port/v1 of a server, or "
                "judge inside a run, whose engine is attached"
            )
        prompts = [question.prompt(self._secret) for question in questions.values()]
        found = self._ask(prompts, self._params.default.max_tokens)
        assert len(found) == len(questions), "an engine answers every prompt"
        answers = [Completion(answer) if isinstance(answer, str) else answer for answer in found]
        return {key: self._read(question, answer) for (key, question), answer in zip(questions.items(), answers)}

    def _read(self, question: Question, completion: Completion) -> Answer:
        self._usage.asked(completion)
        return question.read(completion.text, self._secret)


def _questions(case: Case, settings: JudgeParams) -> list[Question]:
    asked_of = (settings.model, settings.max_tokens, settings.temperature, settings.guided)
    orders = [(case.expected, case.actual), (case.actual, case.expected)]
    rubric = RUBRIC if settings.rubric is None else settings.rubric
    return [Question(case.context, *order, rubric, asked_of) for order in orders[: 1 + settings.both_orders]]


def _verdict(answers: list[Answer]) -> Verdict:
    said = ", then ".join(answers)
    if "UNCLEAR" in answers:
        return Verdict(0.0, "judge_unclear", said)
    if len(set(answers)) > 1:
        return Verdict(0.0, "judge_disagrees", said)
    return Verdict(1.0, "judge_same", said) if answers[0] == "SAME" else Verdict(0.0, "judge_different", said)
