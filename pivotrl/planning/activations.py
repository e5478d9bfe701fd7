"""Bytes of activations of a micro-batch on one rank: kept for the backward pass, and working memory at its peak.

All terms are of one kind: how many numbers of which width a layer's backward pass needs for each token. What differs
between the CPU's plain torch modules and a GPU's fused kernels is in `Backend`. The CPU's numbers are held against the
measured peak of real models by tests/planning (allocations followed through a forward and a backward pass). The GPU's
are by reading Megatron-Core 0.16.1 and Transformer Engine 2: a fused norm keeps its input, a fused SwiGLU keeps its
input and its output, RoPE keeps nothing, flash attention keeps q, k, v, its output and one float32 a head.

Legend: T tokens of the row, P those of them on this rank (T / TP with sequence parallelism, else all), R tokens times
experts chosen that reach this rank, N response tokens.
"""

from dataclasses import dataclass, replace

from pivotrl.objective.head import CHUNK_BYTES
from pivotrl.objective.rows import CHUNK_ELEMENTS
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig


@dataclass(frozen=True, slots=True)
class Backend:
    """What a layer's parts keep for the backward pass, in bytes for each number of theirs."""

    norm_kept: int
    """Of a norm's input, its output not counted."""
    copies_norm_input: bool
    """A norm keeps a copy of its input (where it computes in float32, or cannot read it in place)."""
    rope_tables: int
    """Tables of the head size that RoPE keeps for each token, in every layer."""
    plain_outputs: int
    """Copies of attention's output that plain packing keeps."""
    expert_ffn_kept: int
    """Numbers of an MLP's inner width that an expert keeps for each of its tokens."""
    dense_ffn_kept: int
    """The same of a dense MLP, which weighs nothing with a router's probabilities."""
    router_kept: int
    """Bytes for each expert that routing keeps of a token."""
    ffn_working: int
    """Numbers of an MLP's inner width alive beside what is kept, for all of a layer's tokens."""
    head_rows: int
    """Largest number of float32 logits that the log-prob passes hold besides the chunk."""


def cpu(element: int) -> Backend:
    """Plain torch modules. Norms compute in float32: they keep their input and what is scaled."""
    return Backend(
        norm_kept=8,
        copies_norm_input=element == 2,
        rope_tables=4,
        plain_outputs=2,
        expert_ffn_kept=6,
        dense_ffn_kept=5,
        router_kept=5,
        ffn_working=0,
        head_rows=2 * CHUNK_ELEMENTS,
    )


def gpu(element: int) -> Backend:
    """Transformer Engine's layers and Megatron's fused parts."""
    return Backend(
        norm_kept=element,
        copies_norm_input=True,
        rope_tables=0,
        plain_outputs=1,
        expert_ffn_kept=3,
        dense_ffn_kept=3,
        router_kept=13,
        ffn_working=3,
        head_rows=0,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A micro-batch, as far as memory goes."""

    tokens: int
    responses: int
    packing: str = "prompt_once"


@dataclass(frozen=True, slots=True)
class Activations:
    """Bytes on one rank of a pipeline stage."""

    kept: int
    """By all micro-batches in flight at the peak."""
    working: int
    """Alive beside them for a moment: the layer at work, or the head."""

    @property
    def peak(self) -> int:
        return self.kept + self.working


@dataclass(frozen=True, slots=True)
class Layer:
    """Bytes that one layer keeps of a micro-batch."""

    attention: float
    """Both norms, and attention with its projections."""
    mlp: float
    """Router, dispatched tokens and experts, or the dense MLP."""
    boundary: float
    """The layer's input: all that is kept of a layer that is recomputed."""
    working: float


def layer_bytes(
    arch: Architecture, parallel: ParallelConfig, element: int, backend: Backend, row: Row, imbalance: float = 1.0
) -> Layer:
    """One layer's share.

    Args:
        element: bytes of an activation.
        imbalance: tokens of the fullest rank's experts over the mean.
    """
    tp, tokens = parallel.tensor, row.tokens
    local = tokens / tp if parallel.sequence_parallel else tokens
    q, kv = arch.heads // tp * arch.head_dim, arch.kv_heads // tp * arch.head_dim
    attention = element * (q + 2 * kv)  # q, k and v in one
    if arch.qk_norm:
        scaled = backend.norm_kept - 4 if backend.norm_kept > element else 0
        copied = 4 if backend.norm_kept > element else element
        attention += scaled * (q + kv)
        # with one key-value head a rank the query is read where it is
        attention += copied * (q + kv if backend.copies_norm_input else (q if kv > arch.head_dim else 0))
    attention += element * (q + kv + backend.rope_tables * arch.head_dim)
    attention += element * q * (backend.plain_outputs if row.packing == "plain" else 1) + 4 * arch.heads // tp
    norms = 2 * local * arch.hidden * (backend.norm_kept + element)
    boundary = local * arch.hidden * element
    if arch.experts:
        width = arch.expert_ffn // parallel.expert_tensor
        routed = local * parallel.expert_tensor * arch.top_k * imbalance
        mlp = routed * element * (arch.hidden + backend.expert_ffn_kept * width)
        mlp += local * (backend.router_kept * arch.experts + 24 * arch.top_k)
        dispatch = 3 if parallel.expert * parallel.expert_tensor == 1 else 4
        working = routed * element * (dispatch * arch.hidden + backend.ffn_working * width) + 3 * boundary
    else:
        width = arch.ffn // tp
        mlp = tokens * element * backend.dense_ffn_kept * width
        working = tokens * element * (arch.hidden + max(1, backend.ffn_working) * width) + 2 * boundary
    return Layer(norms + tokens * attention, mlp, boundary, working)


def activation_bytes(
    arch: Architecture,
    parallel: ParallelConfig,
    element: int,
    backend: Backend,
    row: Row,
    recompute: str = "none",
    stage: int = 0,
    micro_batches: int = 1,
    imbalance: float = 1.0,
) -> Activations:
    """Activations of forward and backward on a rank of a pipeline stage.

    Args:
        recompute: `model.recompute`.
        micro_batches: of an update, on one data-parallel rank.
        imbalance: tokens of the fullest rank's experts over the mean.
    """
    layer = layer_bytes(arch, parallel, element, backend, row, imbalance)
    stages = parallel.pipeline
    per_chunk = arch.layers // (stages * parallel.virtual_pipeline)
    kept = {"none": layer.attention + layer.mlp, "selective": layer.attention, "full": layer.boundary}[recompute]
    working = layer.working + {"none": 0, "selective": layer.mlp, "full": layer.attention + layer.mlp}[recompute]
    total = chunks_in_flight(parallel, stage, micro_batches) * per_chunk * kept + layer.boundary
    if stage == stages - 1:  # what the head kept is gone when the last layer's backward pass begins
        working = max(working, sum(_head_bytes(arch, parallel, element, backend, row)))
    return Activations(round(total), round(working))


def forward_bytes(
    arch: Architecture, parallel: ParallelConfig, element: int, backend: Backend, row: Row, imbalance: float = 1.0
) -> Activations:
    """Activations of a pass without a gradient: one layer's at a time."""
    layer = layer_bytes(arch, parallel, element, backend, row, imbalance)
    _, head = _head_bytes(arch, parallel, element, backend, row)
    at_work = max(layer.attention, layer.mlp) / 2 + layer.working
    return Activations(round(2 * layer.boundary), round(max(at_work, head)))


def chunks_in_flight(parallel: ParallelConfig, stage: int, micro_batches: int) -> int:
    """Forward passes of a chunk that wait for their backward pass at the peak (Megatron-Core's schedules).

    One forward, one backward: stage s warms up with PP - 1 - s micro-batches. Interleaved: with 2 (PP - 1 - s) and
    (VP - 1) PP chunks. One more is at work.
    """
    stages, chunks = parallel.pipeline, parallel.virtual_pipeline
    if chunks == 1:
        return min(stages - stage, micro_batches)
    return min(2 * (stages - 1 - stage) + (chunks - 1) * stages + 1, micro_batches * chunks)


def _head_bytes(
    arch: Architecture, parallel: ParallelConfig, element: int, backend: Backend, row: Row
) -> tuple[float, float]:
    """(kept by the final norm, working memory of the head with its backward pass)."""
    local = row.tokens / parallel.tensor if parallel.sequence_parallel else row.tokens
    final = local * arch.hidden * (backend.norm_kept + element)
    if element == 2:  # Float16Module makes the last stage's output float32, and the head makes it bfloat16 again
        final += local * arch.hidden * (4 + element)
    columns = -(-arch.vocab // parallel.tensor)
    logits = min(CHUNK_BYTES, row.responses * columns * element)
    scratch = 4 * min(backend.head_rows, 2 * row.responses * columns)
    hidden = row.tokens * arch.hidden * element if parallel.sequence_parallel else 0
    return final, 2 * row.responses * arch.hidden * element + logits + scratch + hidden


def with_row(row: Row, tokens: int) -> Row:
    """The same row, stretched to another number of tokens."""
    return replace(row, tokens=tokens, responses=round(row.responses * tokens / max(1, row.tokens)))
