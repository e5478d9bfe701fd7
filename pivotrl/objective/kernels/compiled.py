"""What the compilers make of the Triton kernels, without a GPU: registers, spills, and how the logits are moved."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pivotrl.objective.kernels.dlogits import dlogits_kernel
from pivotrl.objective.kernels.launch import launch_for
from pivotrl.objective.kernels.stats import stats_kernel

ARCHITECTURES = (80, 90, 100)
"""Compute capabilities: A100, H100 and H200, B200."""
ELEMENT_SIZES = {"bf16": 2, "fp32": 4}
_ALIGNED = ("row_stride", "out_stride", "num_valid", "num_columns", "num_rows")
"""Integers that a vocabulary and its shards make multiples of 16, as the run-time compiler would notice."""


@dataclass(frozen=True)
class Compiled:
    """One kernel for one architecture and dtype."""

    kernel: str
    architecture: int
    dtype: str
    block: int
    num_warps: int
    registers: int
    spilled: int
    """Bytes of a thread's stack and local memory: 0 where everything stays in registers."""
    reads: float
    """16-byte loads from global memory in a block's loop, in units of the whole block: 1 is one read of the logits."""
    writes: float
    """Likewise stores. Narrower accesses than 16 bytes would leave both at 0."""


def compile_all() -> list[Compiled]:
    """Every kernel, dtype and architecture that the installed compilers know, as the launches of `launch.py` use them.

    Raises RuntimeError where Triton's own tools are missing.
    """
    return [
        compile_kernel(kernel, architecture, dtype)
        for architecture in ARCHITECTURES
        for dtype in ELEMENT_SIZES
        for kernel in (stats_kernel, dlogits_kernel)
    ]


def compile_kernel(kernel, architecture: int, dtype: str) -> Compiled:
    """One kernel at the block that rows of 2^17 columns would get."""
    block, num_warps = launch_for(ELEMENT_SIZES[dtype], 1 << 17)
    constants = {"WITH_ENTROPY": True, "BLOCK": block}
    signature = {name: _type_of(name, dtype) for name in kernel.arg_names}
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(kernel.arg_names)
        if name.endswith("_ptr") or name in _ALIGNED
    }
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={name: value for name, value in constants.items() if name in kernel.arg_names},
        attrs=aligned,
    )
    built = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": num_warps})
    registers, spilled = _resources(built.asm["cubin"])
    # One thread moves the block in this many accesses of 16 bytes.
    lanes = ELEMENT_SIZES[dtype] * block // (16 * 32 * num_warps)
    loads, stores = (_accesses(built.asm["ptx"], kind) for kind in ("ld", "st"))
    return Compiled(
        kernel=kernel.__name__.removesuffix("_kernel"),
        architecture=architecture,
        dtype=dtype,
        block=block,
        num_warps=num_warps,
        registers=registers,
        spilled=spilled,
        reads=loads.count(16) / lanes,
        writes=stores.count(16) / lanes,
    )


def _type_of(name: str, dtype: str) -> str:
    if name.isupper():
        return "constexpr"
    if name in ("logits_ptr", "out_ptr"):
        return f"*{dtype}"
    if name == "targets_ptr":
        return "*i64"
    if name.endswith("_ptr"):
        return "*fp32"
    return "fp32" if name in ("log2_scale", "inverse_temperature") else "i32"


def _accesses(ptx: str, kind: str) -> list[int]:
    """Bytes of every global load or store of a thread."""
    found = re.findall(rf"\b{kind}\.global\S*?(?:\.v(\d))?\.[bfu](\d+)", ptx)
    return [int(count or 1) * int(bits) // 8 for count, bits in found]


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread, and the bytes that it spills."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        shown = subprocess.run([str(tool), "-res-usage", file.name], capture_output=True, text=True, timeout=60).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", shown)
    if not found:
        raise RuntimeError(f"{tool} gave no resource usage: {shown[-200:]!r}")
    registers, stack, local = map(int, found.groups())
    return registers, stack + local
