"""How new values get into the form that vLLM's kernels read, for each kind of layer.

What vLLM 0.32 keeps (N rows, K columns; E experts of inner width I on hidden size H; this rank's part of each):

| layer                  | on a GPU                         | on a CPU                                           |
|------------------------|----------------------------------|----------------------------------------------------|
| norm, bias, embedding  | as in the checkpoint             | as in the checkpoint                               |
| attention, MLP, router | [N, K], as in the checkpoint     | packed in a oneDNN handler; the parameter is empty |
| output head            | as in the checkpoint             | the parameter, and a packed copy that alone is read|
| experts                | [E, 2I, H] and [E, H, I], as in  | the same shapes (I padded to a multiple of 32),    |
|                        | the checkpoint (Triton kernels)  | prepacked for the grouped GEMM                     |

Hence a plain copy leaves a CPU engine computing with other weights than were written, without an error. So does vLLM's
own `reload_weights` for the experts: it prepacks them on the first load only.
"""

import torch
from torch import Tensor, nn


class Landing:
    """A tensor that is kept as in the checkpoint: new values are copied into it."""

    def __init__(self, name: str, tensor: Tensor, elements: int | None = None):
        self.name, self.tensor = name, tensor
        self.elements = tensor.numel() if elements is None else elements
        """Elements that come from the policy; the rest is padding, which stays as it is."""
        self.opened, self.packed = 0, 0
        """Bytes that `open` takes, and that `close` allocates at most twice."""

    def open(self) -> Tensor:
        """A tensor in the checkpoint's layout (this rank's part) to write to."""
        return self.tensor

    def close(self, written: Tensor) -> None:
        """Bring what was written, whole, into the form that the kernels read."""


class Rows(Landing):
    """Rows of the vocabulary, and behind them vLLM's padding, which its loader leaves zero."""

    def __init__(self, name: str, tensor: Tensor, rows: int):
        super().__init__(name, tensor, rows * tensor.shape[1])
        self.rows = rows

    def close(self, written: Tensor) -> None:
        written[self.rows :].zero_()


class PackedLinear(Landing):
    """A linear layer whose weight vLLM has packed away: it is given a new one, and packs that."""

    def __init__(self, name: str, layer: nn.Module):
        self.name, self.layer = name, layer
        self.shape = (
            getattr(layer, "output_size_per_partition", layer.output_size),  # a replicated layer has the whole only
            getattr(layer, "input_size_per_partition", layer.input_size),
        )
        self.elements = self.shape[0] * self.shape[1]
        self.opened = self.packed = self.elements * layer.params_dtype.itemsize

    def open(self) -> Tensor:
        return torch.empty(self.shape, dtype=self.layer.params_dtype)

    def close(self, written: Tensor) -> None:
        self.layer.weight = nn.Parameter(written, requires_grad=False)
        _pack(self.layer)


class PackedHead(Rows):
    """Rows of the vocabulary of which vLLM keeps a packed copy for the logits."""

    def __init__(self, name: str, tensor: Tensor, rows: int, heads: list[nn.Module]):
        super().__init__(name, tensor, rows)
        self.heads = heads
        self.packed = tensor.nbytes

    def close(self, written: Tensor) -> None:
        super().close(written)
        for head in self.heads:
            _pack(head)


def _pack(layer: nn.Module) -> None:
    """Let vLLM pack a layer's weight anew; the packed form from before is freed first, so that there is only one."""
    layer.cpu_linear = None
    layer.quant_method.process_weights_after_loading(layer)


class Staging:
    """Memory in the checkpoint's layout that landings take turns with: on a CPU, fresh memory costs many times a copy
    into it."""

    def __init__(self) -> None:
        self._free: dict[tuple[tuple[int, ...], torch.dtype], list[Tensor]] = {}

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of any values; nobody else has it until it is given back."""
        free = self._free.get((shape, dtype))
        return free.pop() if free else torch.empty(shape, dtype=dtype)

    def give_back(self, tensor: Tensor) -> None:
        self._free.setdefault((tuple(tensor.shape), tensor.dtype), []).append(tensor)


class PrepackedExperts(Landing):
    """One stacked weight of an MoE layer on a CPU: prepacked for the experts' kernel, straight into the live weight."""

    def __init__(self, name: str, layer: nn.Module, attribute: str, shape: tuple[int, ...], shared: Staging):
        self.name, self.layer, self.attribute, self.shape, self.shared = name, layer, attribute, shape, shared
        self.experts = layer.quant_method.moe_kernel.fused_experts
        self.elements = torch.Size(shape).numel()
        self.opened = self.elements * self._live.dtype.itemsize
        self.packed = 0 if self._live.shape == torch.Size(shape) else self._live.nbytes

    @property
    def _live(self) -> Tensor:
        return getattr(self.layer, self.attribute).data

    def open(self) -> Tensor:
        return self.shared.take(self.shape, self._live.dtype)

    def close(self, written: Tensor) -> None:
        torch.ops._C.prepack_moe_weight(self._padded(written), self._live, self.experts.isa)
        self.shared.give_back(written)

    def _padded(self, written: Tensor) -> Tensor:
        """The inner width in the kernel's size: zeros behind gate, up and the columns of down."""
        live = self._live
        if written.shape == live.shape:
            return written
        padded = torch.zeros_like(live)
        if self.attribute == "w2_weight":
            padded[..., : written.shape[2]] = written
        else:
            halves = padded.unflatten(1, (2, -1))
            halves[:, :, : written.shape[1] // 2] = written.unflatten(1, (2, -1))
        return padded
