"""The compiled csrc/group_loss.cu: building it, finding it, and its C interface in ctypes."""

import ctypes
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "csrc" / "group_loss.cu"
BUILT = Path(__file__).with_name("libgroup_loss.so")
ARCHITECTURES = ("80", "90", "100")
"""Compute capabilities compiled for, as far as the installed nvcc knows them; the last also as PTX, for later ones."""

TOTALS = (
    "loss",
    "tokens",
    "sampled",
    "ratio",
    "clip_low_share",
    "clip_high_share",
    "dual_clip_share",
    "kl_old",
    "kl_reference",
    "entropy",
    "sampler_gap",
    "sampler_error",
    "importance_weight",
    "importance_bound_share",
)
"""PivotrlTotal of csrc/group_loss.h, in its order."""

_POINTER, _INT, _FLOAT, _DOUBLE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_float, ctypes.c_double


class Arguments(ctypes.Structure):
    """PivotrlGroupLoss of csrc/group_loss.h."""

    _fields_ = (
        ("num_samples", _INT),
        ("token_offsets", _POINTER),
        ("advantages", _POINTER),
        ("rewards", _POINTER),
        ("group_offsets", _POINTER),
        ("reward_index", _POINTER),
        ("num_groups", _INT),
        ("advantage_mode", _INT),
        ("advantage_epsilon", _DOUBLE),
        ("logp", _POINTER),
        ("old_logp", _POINTER),
        ("sampler_logp", _POINTER),
        ("reference_logp", _POINTER),
        ("entropy", _POINTER),
        ("mask", _POINTER),
        ("ratio_of_sequence", _INT),
        ("cispo", _INT),
        ("clip_low", _FLOAT),
        ("clip_high", _FLOAT),
        ("dual_clip", _FLOAT),
        ("kl", _INT),
        ("beta", _FLOAT),
        ("entropy_bonus", _FLOAT),
        ("importance", _INT),
        ("importance_low", _FLOAT),
        ("importance_high", _FLOAT),
        ("sequence_mean", _INT),
        ("denominator", _DOUBLE),
        ("g", _POINTER),
        ("h", _POINTER),
        ("advantages_out", _POINTER),
        ("partials", _POINTER),
        ("totals", _POINTER),
        ("ticket", _POINTER),
    )


@lru_cache(maxsize=8)
def load(path: str) -> ctypes.CDLL:
    """A built library. Raises OSError where it cannot be loaded."""
    library = ctypes.CDLL(path)
    library.pivotrl_group_loss.argtypes = (ctypes.POINTER(Arguments), ctypes.c_void_p)
    library.pivotrl_group_loss.restype = ctypes.c_int
    library.pivotrl_group_loss_error.argtypes = (ctypes.c_int,)
    library.pivotrl_group_loss_error.restype = ctypes.c_char_p
    return library


@lru_cache(maxsize=1)
def is_installed() -> bool:
    """Whether the library was built at installation, which takes nvcc."""
    return BUILT.exists()


def build(target: Path = BUILT) -> Path:
    """Compile for every architecture of ARCHITECTURES that nvcc knows; a few seconds, and no torch.

    Raises RuntimeError with the compiler's words.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise RuntimeError("nvcc is not on PATH: install the CUDA toolkit, or do without (the definition runs instead)")
    known = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, timeout=60).stdout.split()
    codes = [code for code in ARCHITECTURES if f"sm_{code}" in known]
    gencode = [f"-gencode=arch=compute_{code},code=sm_{code}" for code in codes]
    gencode += [f"-gencode=arch=compute_{codes[-1]},code=compute_{codes[-1]}"]
    partial = target.with_suffix(".new")
    flags = ["-O3", "-std=c++17", "-Xcompiler", "-fPIC", "-shared", *gencode]
    run_compiler([nvcc, *flags, "-o", str(partial), str(SOURCE)])
    return partial.replace(target)


def build_for_cpu(target: Path, *flags: str, source: Path = SOURCE) -> Path:
    """Compile the same source for a CPU, through csrc/cpu_shim.h: for tests. Raises RuntimeError likewise."""
    common = ["-x", "c++", "-std=c++20", "-g", "-Wall", "-Wextra", "-Werror", "-DPIVOTRL_CPU"]
    run_compiler(["g++", *common, "-O1", "-fPIC", "-shared", *flags, "-o", str(target), str(source)])
    return target


def compile_report(architecture: str, target: Path) -> str:
    """What ptxas says of the kernel on one of ARCHITECTURES: one line. Raises RuntimeError where nvcc fails."""
    code = f"-gencode=arch=compute_{architecture},code=sm_{architecture}"
    flags = ["-O3", "-std=c++17", "-cubin", code, "-Xptxas=-v"]
    said = run_compiler(["nvcc", *flags, "-o", str(target), str(SOURCE)])
    lines = [
        line.split(":", 1)[-1].strip() for line in said.splitlines() if "bytes stack frame" in line or "Used" in line
    ]
    return "; ".join(lines)


def run_compiler(command: list[str]) -> str:
    """Run a compiler; its messages. Raises RuntimeError with them where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    messages = result.stdout + result.stderr
    if result.returncode:
        raise RuntimeError(f"{command[0]} failed on {SOURCE.name}:\n{messages[-4000:]}")
    return messages


def main(arguments: list[str]) -> int:
    """Build it; with `--optional`, a compiler that is not there or fails is told and no fault."""
    try:
        print(build())
    except RuntimeError as error:
        print(f"csrc/group_loss.cu is not built: the objective runs by its definition\n{error}", file=sys.stderr)
        return 0 if arguments == ["--optional"] else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
