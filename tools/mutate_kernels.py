"""Break the kernels in every way that has bitten somebody, and see that a check notices each.

    python tools/mutate_kernels.py [--only TEXT]

The mutations of csrc/group_loss.cu are compiled for the CPU and compared with the definition; those of the Triton
kernels run in Triton's interpreter; those of the definition itself are tests (tests/objective/test_loss.py,
test_vocab.py). Exit code 1 where a mutation survives.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

# (what is wrong, what stands in csrc/group_loss.cu once, what is put there)
MUTATIONS = [
    (
        "clip bounds swapped",
        "low = 1 - a.clip_low, high = 1 + a.clip_high",
        "low = 1 - a.clip_high, high = 1 + a.clip_low",
    ),
    ("clip on the other side", "const bool negative = advantage < 0;", "const bool negative = advantage > 0;"),
    ("slope past the low bound", "const bool flat = term.at_low || ", "const bool flat = "),
    ("slope past the high bound", "|| term.at_high ||", "||"),
    ("slope past the dual bound", "|| term.at_dual ||", "||"),
    ("no dual clip", "at_most(at_least(ratio, low), a.dual_clip)", "at_least(ratio, low)"),
    ("KL's sign", "at_least(reference_logp - logp,", "at_least(logp - reference_logp,"),
    ("k2 not halved", "kl = {x * x / 2, -x}", "kl = {x * x, -x}"),
    ("k3's slope", "kl = {expm1f(x) - x, -expm1f(x)}", "kl = {expm1f(x) - x, expm1f(x)}"),
    ("KL missing from g", "g += weight * a.beta * kl.slope;", ""),
    ("KL without its weight", "g += weight * a.beta * kl.slope;", "g += a.beta * kl.slope;"),
    (
        "entropy's sign in the loss",
        "value -= a.entropy_bonus * a.entropy[t]",
        "value += a.entropy_bonus * a.entropy[t]",
    ),
    ("entropy's sign in h", "a.h[t] = -a.entropy_bonus * weight", "a.h[t] = a.entropy_bonus * weight"),
    ("denominator of the sample", "1 / a.denominator /", "1 / counted /"),
    ("sequence mean forgotten", "(a.sequence_mean ? num_tokens : 1)", "1"),
    (
        "sequence ratio a sum",
        "reduce_block(log_ratios, Add(), scratch) / num_tokens",
        "reduce_block(log_ratios, Add(), scratch)",
    ),
    ("sequence slope not shared", "reduce_block(slopes, Add(), scratch) / num_tokens", "slopes / num_tokens"),
    ("masked tokens counted", "if (a.mask != nullptr && !a.mask[t]) continue;", ""),
    ("masked tokens not cleared", "      a.g[t] = a.h[t] = 0;\n", ""),
    ("lost sampler log-probs kept", "if (!isfinite(sampler)) return {0.f, true, false};", ""),
    (
        "weight upside down",
        "expf(at_most(old_logp - sampler, kMaxLogRatio))",
        "expf(at_most(sampler - old_logp, kMaxLogRatio))",
    ),
    ("mask truncates", "outside ? 0.f : weight, false, outside", "weight, false, outside"),
    (
        "truncation one-sided",
        "at_most(at_least(weight, a.importance_low), a.importance_high)",
        "at_most(weight, a.importance_high)",
    ),
    ("CISPO not clipped", "-advantage * at_most(at_least(ratio, low), high)", "-advantage * ratio"),
    ("population std for the others", "(leave_out ? counted - 1 : counted)", "counted"),
    ("Bessel std for the group", "(leave_out ? counted - 1 : counted)", "counted - 1"),
    ("the sample among the others", "    if (leave_out && i == mine) continue;\n    squares", "    squares"),
    ("equal others divided", "(counted == 1 || least == most)", "counted == 1"),
    ("equal groups not zero", "== reduce_block(most_of_all, Most(), scratch)) return 0;", "> 1e30) return 0;"),
    ("wrong group", "if (a.group_offsets[middle] <= reward) low", "if (a.group_offsets[middle] < reward) low"),
    ("neighbour's reward", "a.rewards[mine] - mean", "a.rewards[begin] - mean"),
    (
        "a warp's sum for the block's",
        "for (int warp = 1; warp < kWarps; ++warp)",
        "for (int warp = 1; warp < 1; ++warp)",
    ),
    ("half a warp", "for (int offset = 16; offset > 0", "for (int offset = 8; offset > 0"),
    ("NaN hidden by the bound above", "return x > bound ? bound : x;", "return x < bound ? x : bound;"),
    ("NaN hidden by the bound below", "return x < bound ? bound : x;", "return x > bound ? x : bound;"),
    ("last sample missing", "s < a.num_samples; s += kThreads", "s < a.num_samples - 1; s += kThreads"),
    ("barrier missed by a warp", "  if (!last) return;\n", "  if (!last) return;\n  if (threadIdx.x < 32) return;\n"),
    (
        "token of the next sample",
        "end = a.token_offsets[sample + 1];\n  const float",
        "end = a.token_offsets[sample + 1] + 1;\n  const float",
    ),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="mutations whose description has this text")
    arguments = parser.parse_args()
    survivors = [name for name, old, new in MUTATIONS if arguments.only in name and survives(name, old, new)]
    if not arguments.only:
        survivors += [] if triton_mutants_are_noticed() else ["a Triton mutation (see above)"]
    tried = sum(arguments.only in name for name, *_ in MUTATIONS)
    print(
        f"{tried} mutations of csrc/group_loss.cu tried; "
        + (f"NOT noticed: {survivors}" if survivors else "all noticed")
    )
    return 1 if survivors else 0


def survives(name: str, old: str, new: str) -> bool:
    """Whether the comparison with the definition passes for the mutated kernel."""
    from pivotrl.objective.kernels import library

    source = library.SOURCE.read_text(encoding="ascii")
    if source.count(old) != 1:
        raise SystemExit(f"{name}: csrc/group_loss.cu has {source.count(old)} times {old!r}: bring it up to date")
    with tempfile.TemporaryDirectory() as folder:
        mutated = Path(folder) / "group_loss.cu"
        mutated.write_text(source.replace(old, new), encoding="ascii")
        built = library.build_for_cpu(
            Path(folder) / "mutant.so", "-Wno-error", f"-I{library.SOURCE.parent}", source=mutated
        )
        result = run([sys.executable, "-m", "tests.objective.fused_sanitized", str(built)])
    last = (result.stderr.strip().splitlines() or [""])[-1]
    print(f"{'SURVIVES' if result.returncode == 0 else 'noticed':8}  {name}: {last[:90]}", flush=True)
    return result.returncode == 0


def triton_mutants_are_noticed() -> bool:
    result = run([sys.executable, "-m", "tests.objective.kernels_interpreted", "mutants"], TRITON_INTERPRET="1")
    print(result.stdout + result.stderr, end="", flush=True)
    return result.returncode == 0


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess:
    merged = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command, cwd=REPOSITORY, env=merged, capture_output=True, text=True, timeout=600)


if __name__ == "__main__":
    sys.exit(main())
