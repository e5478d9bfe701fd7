"""A refit on one GPU: a world of one rank, whose weights are copied straight across into vLLM's layout for GPUs.

There is no vLLM on the machine that runs it: the engine is a module with vLLM's parameters. Every box must arrive bit
for bit, within the memory of its buffers, and the copy's rate is told beside that of one plain copy of the same bytes.
"""

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
LAYERS, EXPERTS, HIDDEN, INNER, HEADS, KV, HEAD = 8, 64, 2048, 768, 32, 4, 128
VOCABULARY = 32768


class Owned:
    """Weights of one rank that owns everything, experts one by one as Megatron keeps them."""

    stages = 1

    def __init__(self, tensors: dict[str, torch.Tensor | list[torch.Tensor]]) -> None:
        self.tensors = tensors
        self.dtype, self.device = torch.bfloat16, torch.device("cuda")

    def read(self, block, bounds):
        inner = tuple(slice(*pair) for pair in bounds)
        found = self.tensors[block.tensor]
        if isinstance(found, list):
            return [one[inner[1:]] for one in found[inner[0]]]
        return [found[inner]]


def weights() -> dict[str, torch.Tensor | list[torch.Tensor]]:
    def made(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    tensors: dict[str, torch.Tensor | list[torch.Tensor]] = {"model.embed_tokens.weight": made(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        tensors |= {
            f"{name}input_layernorm.weight": made(HIDDEN),
            f"{name}self_attn.q_proj.weight": made(HEADS * HEAD, HIDDEN),
            f"{name}self_attn.k_proj.weight": made(KV * HEAD, HIDDEN),
            f"{name}self_attn.v_proj.weight": made(KV * HEAD, HIDDEN),
            f"{name}self_attn.o_proj.weight": made(HIDDEN, HEADS * HEAD),
            f"{name}mlp.gate.weight": made(EXPERTS, HIDDEN),
            f"{name}mlp.experts.gate_up_proj": [made(2 * INNER, HIDDEN) for _ in range(EXPERTS)],
            f"{name}mlp.experts.down_proj": [made(HIDDEN, INNER) for _ in range(EXPERTS)],
        }
    return tensors


def shape_of(value: torch.Tensor | list[torch.Tensor]) -> tuple[int, ...]:
    return (len(value), *value[0].shape) if isinstance(value, list) else tuple(value.shape)


def test_a_refit_on_one_gpu_is_a_copy(capsys: pytest.CaptureFixture) -> None:
    from pivotrl.policy.shards import Block
    from pivotrl.rollout.landings import Landing
    from pivotrl.rollout.plan import Piece, box
    from pivotrl.rollout.receiver import Receiver
    from pivotrl.rollout.transfers import make_rounds, make_transfers
    from pivotrl.rollout.transport import Transport

    torch.manual_seed(0)
    tensors = weights()
    blocks, landings, pieces, needs = [], {}, [], {}
    for name, value in tensors.items():
        shape = shape_of(value)
        everything = tuple((0, size) for size in shape)
        blocks.append(Block(name, shape, everything, (name,)))
        fused = name.replace("q_proj", "qkv_proj").replace("k_proj", "qkv_proj").replace("v_proj", "qkv_proj")
        if "qkv_proj" in fused:  # vLLM stacks the three
            if fused not in landings:
                rows = (HEADS + 2 * KV) * HEAD
                landings[fused] = Landing(fused, torch.full((rows, HIDDEN), torch.nan, device="cuda").bfloat16())
            row = {"q": 0, "k": HEADS * HEAD, "v": (HEADS + KV) * HEAD}[name.split(".")[-2][0]]
            target = box((row, row + shape[0]), everything[1])
        else:
            landings[name] = Landing(name, torch.full(shape, torch.nan, device="cuda", dtype=torch.bfloat16))
            target = box(*everything)
        pieces.append(Piece(name, shape, box(*everything), fused, target))
        needs[name] = [everything]
    plan = make_transfers([blocks], [needs], 2, 1)
    source, receiver = Owned(tensors), Receiver(landings, pieces)
    moving = Transport(plan, make_rounds(plan, 0, 32 << 20), receiver, 0)
    size = sum(plan.nbytes(move) for move in plan.moves)
    with torch.no_grad():
        sent, landed = moving.run(source)
        torch.cuda.synchronize()
        assert torch.equal(sent, landed) and sent.count_nonzero() == len(plan.moves)
        for piece in pieces:
            value = tensors[piece.source]
            truth = torch.stack(value) if isinstance(value, list) else value
            assert torch.equal(landings[piece.target].tensor[piece.target_box], truth), piece.source
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        seconds = min(timed(lambda: moving.run(source)) for _ in range(5))
        extra = torch.cuda.max_memory_allocated() - before
        one, other = (torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2))
        copied = min(timed(lambda: one.copy_(other)) for _ in range(5))
    assert extra <= 2 * (128 << 20), extra
    rates = [f"{size / 1e9 / one:.0f} GB/s ({one:.4f} s)" for one in (seconds, copied)]
    with capsys.disabled():
        print(
            f"\nrefit on one GPU: {size / 1e9:.2f} GB with both checksums at {rates[0]}, one plain copy {rates[1]}; "
            f"refit / copy {seconds / copied:.1f}; extra memory {extra / 2**20:.0f} MiB"
        )


def timed(call) -> float:
    """Seconds by CUDA events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3
