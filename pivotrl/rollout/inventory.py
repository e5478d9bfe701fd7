"""What a vLLM model holds on this rank: a landing for every tensor, and the pieces of the export that fill it.

Names follow the checkpoint's, through the model's own `packed_modules_mapping`. Tensor-parallel slices follow vLLM's
rules: heads and columns by rank, key-value heads repeated where there are fewer than ranks, and rows of the vocabulary
with padding behind them.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from pivotrl.rollout.landings import Landing, PackedHead, PackedLinear, PrepackedExperts, Rows, Staging
from pivotrl.rollout.plan import Piece, RefitError, box

STACKED = ("gate_up_proj", "down_proj")
"""Last names of an MoE layer's two exported tensors, [E, 2I, H] and [E, H, I]."""
_CONSTANT = ("_k_scale", "_v_scale", "_q_scale", "_prob_scale")
"""Buffers of a checkpoint's, for a quantised cache, that vLLM sets to 1 where the checkpoint has none."""


def find_landings(model: nn.Module, kind: str) -> tuple[dict[str, Landing], list[Piece]]:
    """Every tensor of this rank's vLLM model that comes from the policy, and the pieces that fill it.

    Args:
        model: the vLLM model (one of `policy.architecture.SUPPORTED`, not quantised).
        kind: "cpu" or "cuda".

    Raises:
        RefitError: the model has a layer or a kernel's weight layout that is not known here.
    """
    from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
    from vllm.model_executor.layers.linear import LinearBase
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    landings: dict[str, Landing] = {}
    pieces: list[Piece] = []
    embeddings: dict[int, str] = {}
    shared = Staging()
    for path, module in model.named_modules():
        if isinstance(module, RoutedExperts):
            found, filled = _experts(path, module, kind, shared)
        elif isinstance(module, LinearBase):
            found, filled = _linear(path, module, model.packed_modules_mapping, kind)
        elif isinstance(module, VocabParallelEmbedding):
            if id(module.weight) in embeddings:  # a tied head: it shares the embedding's rows
                first = landings[embeddings[id(module.weight)]]
                if isinstance(first, PackedHead):
                    first.heads.append(module)
                continue
            found, filled = _vocabulary(path, module, kind)
            embeddings[id(module.weight)] = found[0].name
        else:
            own = dict(module.named_parameters(recurse=False))
            found = [Landing(f"{path}.{key}", parameter.data) for key, parameter in own.items()]
            filled = [_whole(landing.name, landing.tensor) for landing in found]
        landings |= {landing.name: landing for landing in found}
        pieces += filled
    loaded = [name for name, _ in model.named_parameters()] + [
        f"{path}.{name}"
        for path, module in model.named_modules()
        for name, buffer in module.named_buffers(recurse=False)
        if name not in module._non_persistent_buffers_set and name not in _CONSTANT
    ]
    forgotten = sorted(name for name in loaded if name not in landings)
    if forgotten:
        raise RefitError(f"refit: the engine's {forgotten[0]} is of a kind that is not known here")
    return landings, pieces


def _whole(name: str, tensor: Tensor) -> Piece:
    everything = box(*((0, size) for size in tensor.shape))
    return Piece(name, tuple(tensor.shape), everything, name, everything)


def _vocabulary(path: str, module: Any, kind: str) -> tuple[list[Landing], list[Piece]]:
    name, shard = f"{path}.weight", module.shard_indices
    rows, hidden = shard.num_org_elements, module.embedding_dim
    start = shard.org_vocab_start_index
    piece = Piece(
        name,
        (module.org_vocab_size, hidden),
        box((start, start + rows), (0, hidden)),
        name,
        box((0, rows), (0, hidden)),
    )
    weight = module.weight.data
    landing = PackedHead(name, weight, rows, [module]) if kind == "cpu" else Rows(name, weight, rows)
    return [landing], [piece]


def _linear(
    path: str, module: Any, packed_modules: dict[str, list[str]], kind: str
) -> tuple[list[Landing], list[Piece]]:
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod

    if not isinstance(module.quant_method, UnquantizedLinearMethod):
        raise RefitError(
            f"refit: {path} is quantised ({type(module.quant_method).__name__}); load the engine unquantised"
        )
    weight = f"{path}.weight"
    landings = [PackedLinear(weight, module) if kind == "cpu" else Landing(weight, module.weight.data)]
    if module.bias is not None:
        landings.append(Landing(f"{path}.bias", module.bias.data))
    parent, _, leaf = path.rpartition(".")
    columns = module.input_size
    width = getattr(module, "input_size_per_partition", columns)
    first_column = width * module.tp_rank if width < columns else 0
    pieces: list[Piece] = []
    row = 0
    for part, (rows, total, start) in zip(packed_modules.get(leaf, [leaf]), _row_stretches(module), strict=True):
        pieces.append(
            Piece(
                f"{parent}.{part}.weight",
                (total, columns),
                box((start, start + rows), (first_column, first_column + width)),
                weight,
                box((row, row + rows), (0, width)),
            )
        )
        if module.bias is not None:
            bias = f"{parent}.{part}.bias"
            pieces.append(Piece(bias, (total,), box((start, start + rows)), f"{path}.bias", box((row, row + rows))))
        row += rows
    return landings, pieces


def _row_stretches(module: Any) -> Iterator[tuple[int, int, int]]:
    """For each checkpoint tensor that a linear layer stacks: rows held here, rows in all, first row held."""
    from vllm.model_executor.layers.linear import ColumnParallelLinear, QKVParallelLinear

    rank, size = module.tp_rank, module.tp_size
    if isinstance(module, QKVParallelLinear):
        q, kv = module.num_heads * module.head_size, module.num_kv_heads * module.head_size
        total_kv = module.total_num_kv_heads * module.head_size
        kv_rank = rank // module.num_kv_head_replicas
        yield q, q * size, q * rank
        yield kv, total_kv, kv * kv_rank
        yield kv, total_kv, kv * kv_rank
    elif isinstance(module, ColumnParallelLinear):
        for total in getattr(module, "output_sizes", [module.output_size]):
            yield total // size, total, total // size * rank
    else:
        yield module.output_size, module.output_size, 0


def _experts(path: str, module: Any, kind: str, shared: Staging) -> tuple[list[Landing], list[Piece]]:
    from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

    method, config = module.quant_method, module.moe_config
    backend = getattr(method, "unquantized_backend", None)
    expected = UnquantizedMoeBackend.CPU if kind == "cpu" else UnquantizedMoeBackend.TRITON
    if not isinstance(method, UnquantizedFusedMoEMethod) or backend is not expected:
        shown = getattr(backend, "value", type(method).__name__)
        raise RefitError(
            f"refit: the weight layout of vLLM's MoE back end {shown} ({path}) is not known here; "
            f"known on this device: {expected.value}"
        )
    if config.has_bias:
        raise RefitError(f"refit: {path} has biases, which is not known here")
    total, hidden = module.global_num_experts, module.hidden_size
    mine = _local_experts(path, module)
    experts = len(mine)
    inner = config.intermediate_size_per_partition_unpadded
    whole, start = inner * config.tp_size, inner * config.tp_rank
    prefix = path.removesuffix(".routed_experts")
    gate_up, down = (f"{prefix}.{kind_of}" for kind_of in STACKED)
    w13, w2 = f"{path}.w13_weight", f"{path}.w2_weight"
    shapes = (experts, 2 * inner, hidden), (experts, hidden, inner)
    if kind == "cpu":
        if getattr(method.moe_kernel.fused_experts, "_use_zentorch", False):
            raise RefitError(f"refit: the experts of {path} are packed by zentorch, which is not known here: remove it")
        landings = [
            PrepackedExperts(w13, module, "w13_weight", shapes[0], shared),
            PrepackedExperts(w2, module, "w2_weight", shapes[1], shared),
        ]
    else:
        if tuple(module.w13_weight.shape) != shapes[0]:
            raise RefitError(f"refit: {w13} is padded to {list(module.w13_weight.shape)}, which is not known here")
        landings = [Landing(w13, module.w13_weight.data), Landing(w2, module.w2_weight.data)]
    every, those = (0, experts), (mine.start, mine.stop)
    pieces = [
        Piece(
            gate_up,
            (total, 2 * whole, hidden),
            box(those, (half * whole + start, half * whole + start + inner), (0, hidden)),
            w13,
            box(every, (half * inner, (half + 1) * inner), (0, hidden)),
        )
        for half in (0, 1)
    ]
    pieces.append(
        Piece(
            down,
            (total, hidden, whole),
            box(those, (0, hidden), (start, start + inner)),
            w2,
            box(every, (0, hidden), (0, inner)),
        )
    )
    return landings, pieces


def _local_experts(path: str, module: Any) -> range:
    """The experts that this rank holds: all, or a run of them where the engine is expert-parallel."""
    if not module.moe_config.moe_parallel_config.use_ep:
        return range(module.global_num_experts)
    held = (module.expert_map >= 0).nonzero().flatten().tolist()
    if held != list(range(held[0], held[0] + module.local_num_experts)):
        raise RefitError(f"refit: {path} holds experts {held}, which are not side by side: placement must be linear")
    return range(held[0], held[0] + len(held))
