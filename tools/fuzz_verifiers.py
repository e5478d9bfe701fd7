"""Judge hostile responses with every verifier: each must get a verdict, soon, within bounded memory.

  python tools/fuzz_verifiers.py [--count 100000] [--seed 0] [--verifiers all | tool_call,swe:robust,...]
  python tools/fuzz_verifiers.py --verifiers sql --only 1234      # one response again, in this process, with traceback

Exit code 1 where a verdict was none: the verifier raised, was over the limit of time, or took its process with it.
"""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from pivotrl.verifiers.base import VerifierConfig  # noqa: E402
from pivotrl.verifiers.hostile import attempts_for  # noqa: E402
from pivotrl.verifiers.pool import FAULTS, VerdictPool  # noqa: E402
from pivotrl.verifiers.registry import VERIFIERS, build_verifier  # noqa: E402

BATCH = 500
"""Responses that are made and judged at a time: they take memory here."""
SHOWN = 3
"""Failures of a verifier that are printed whole."""


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, metavar="N", help="responses in all (default 100000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verifiers", default="all", metavar="NAMES", help="`name` or `name:preset`, with commas")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that judge (default: the cores)")
    parser.add_argument("--seconds", type=float, default=2.0, help="limit of a verdict (default 2)")
    parser.add_argument("--only", type=int, metavar="INDEX", help="judge this response alone, in this process")
    return parser.parse_args(argv)


def chosen(names: str) -> list[VerifierConfig]:
    """The verifiers asked for, each with each of its presets unless one is named. Raises ValueError."""
    configs = []
    for entry in VERIFIERS if names == "all" else names.split(","):
        name, _, preset = entry.partition(":")
        if name not in VERIFIERS or preset not in ("", *VERIFIERS[name]):
            raise ValueError(f"--verifiers: {entry!r} is none of {', '.join(VERIFIERS)}, or has no such preset")
        params = {"endpoint": "engine"} if name == "judge" else {}
        for each in [preset] if preset else VERIFIERS[name]:
            configs.append(VerifierConfig(name=name, preset=each, params=params))
    return configs


def echo(prompts: list[str], max_tokens: int) -> list[str]:
    """A judge that repeats what it reads, verdicts that a model wrote included: none of them may count."""
    return prompts


def fuzz(config: VerifierConfig, count: int, arguments: argparse.Namespace) -> bool:
    """Judge `count` responses with one verifier and print a line; returns whether each got a verdict."""
    reasons: Counter[str] = Counter()
    faults, seconds, memory, earned = [], 0.0, 0, 0
    with VerdictPool(config, arguments.workers, arguments.seconds) as pool:
        if hasattr(pool.verifier, "attach"):
            pool.verifier.attach(echo)
        for start in range(0, count, BATCH):
            attempts = attempts_for(config.name, arguments.seed, start, min(BATCH, count - start))
            begin = time.perf_counter()
            verdicts = pool.judge([(attempt, None) for attempt in attempts])
            seconds += time.perf_counter() - begin
            memory = max(memory, *(peak_memory(pid) for pid in pool.pids()), 0)
            reasons.update(verdict.reason for verdict in verdicts)
            earned += sum(verdict.reward > 0 for verdict in verdicts)
            faults += [(start + place, v) for place, v in enumerate(verdicts) if v.reason in FAULTS]
    common = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common(4))
    label = f"{config.name}:{config.preset}"
    rate = count / seconds if seconds else 0
    print(
        f"{label:28} {count:7,} {seconds:7.1f} s {rate:9,.0f}/s {earned / count:5.0%} earn  {memory / 2**20:6.0f} MB"
        f"  {len(faults)} faults  {common}",
        flush=True,
    )
    for index, verdict in faults[:SHOWN]:
        again = f"--verifiers {label} --seed {arguments.seed} --only {index}"
        print(f"  {verdict.reason}: {verdict.detail}; again: python tools/fuzz_verifiers.py {again}", flush=True)
    return not faults


def peak_memory(pid: int) -> int:
    """Most bytes of a process that were resident at once; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/status") as file:
            line = next((line for line in file if line.startswith("VmHWM")), "VmHWM 0")
    except OSError:
        return 0
    return int(line.split()[1]) * 1024


def again(config: VerifierConfig, arguments: argparse.Namespace) -> None:
    (attempt,) = attempts_for(config.name, arguments.seed, arguments.only, 1)
    for name in ("expert", "items", "text", "tools", "metadata"):
        print(f"{name}: {ascii(getattr(attempt, name))[:2000]}")
    verifier = build_verifier(config)
    if hasattr(verifier, "attach"):
        verifier.attach(echo)
    begin = time.perf_counter()
    verdict = verifier.verify(attempt)
    print(f"{verdict} in {time.perf_counter() - begin:.3f} s")


def run(arguments: argparse.Namespace) -> int:
    configs = chosen(arguments.verifiers)
    if arguments.only is not None:
        for config in configs:
            again(config, arguments)
        return 0
    print(
        "verifier, responses, time; the share that earn something (many hold the expert's own action under noise, and "
        "a lenient verifier pays for it); a worker's memory at most; faults; the commonest reasons",
        flush=True,
    )
    begin = time.perf_counter()
    share = -(-arguments.count // len(configs))
    sound = [fuzz(config, share, arguments) for config in configs]
    print(f"{share * len(configs):,} responses in {time.perf_counter() - begin:.0f} s, seed {arguments.seed}")
    return 0 if all(sound) else 1


def main() -> int:
    try:
        return run(parse(sys.argv[1:]))
    except ValueError as error:
        print(f"fuzz_verifiers: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
