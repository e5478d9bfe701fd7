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
        self.staging = 0
        """Bytes that `open` allocates; packing may take as much again, twice."""

    def open(self) -> Tensor:
        """A tensor in the checkpoint's layout (this rank's part) to write to."""
        return self.tensor

    def close(self, written: Tensor) -> None:
        """Bring what was written, whole, into the form that the kernels read."""


class PackedLinear(Landing):
    """A linear layer whose weight vLLM has packed away: it is given a new one, and packs that."""

    def __init__(self, name: str, layer: nn.Module):
        self.name, self.layer = name, layer
        self.shape = (
            getattr(layer, "output_size_per_partition", layer.output_size),  # a replicated layer has the whole only
            getattr(layer, "input_size_per_partition", layer.input_size),
        )
        self.elements = self.shape[0] * self.shape[1]
        self.staging = self.elements * layer.params_dtype.itemsize

    def open(self) -> Tensor:
        return torch.empty(self.shape, dtype=self.layer.params_dtype)

    def close(self, written: Tensor) -> None:
        self.layer.weight = nn.Parameter(written, requires_grad=False)
        self.layer.quant_method.process_weights_after_loading(self.layer)


class PackedHead(Landing):
    """Rows of the vocabulary of which vLLM keeps a packed copy for the logits."""

    def __init__(self, name: str, tensor: Tensor, elements: int, heads: list[nn.Module]):
        super().__init__(name, tensor, elements)
        self.heads = heads
        self.staging = tensor.nbytes

    def close(self, written: Tensor) -> None:
        for head in self.heads:
            head.quant_method.process_weights_after_loading(head)


class PrepackedExperts:
    """Both stacked weights of one MoE layer on a CPU: prepacked by the experts' own code, copied over the old ones."""

    def __init__(self, layer: nn.Module):
        self.layer, self.experts = layer, layer.quant_method.moe_kernel.fused_experts
        self.arrived: dict[str, Tensor] = {}

    def landing(self, name: str, attribute: str, shape: tuple[int, ...]) -> Landing:
        return _PrepackedPart(self, name, attribute, shape)

    def arrive(self, attribute: str, written: Tensor) -> None:
        """Pack once both are there: padding, where the kernel wants it, concerns both."""
        self.arrived[attribute] = written
        if len(self.arrived) < 2:
            return
        scratch = nn.Module()
        for key, value in self.arrived.items():
            scratch.register_parameter(key, nn.Parameter(value, requires_grad=False))
        self.arrived = {}
        self.experts.process_weights_after_loading(scratch)
        for key, value in scratch.named_parameters():
            getattr(self.layer, key).data.copy_(value.data)


class _PrepackedPart(Landing):
    def __init__(self, layer: PrepackedExperts, name: str, attribute: str, shape: tuple[int, ...]):
        self.name, self.layer, self.attribute, self.shape = name, layer, attribute, shape
        self.elements = torch.Size(shape).numel()
        self.staging = self.elements * layer.layer.w13_weight.dtype.itemsize

    def open(self) -> Tensor:
        return torch.empty(self.shape, dtype=self.layer.layer.w13_weight.dtype)

    def close(self, written: Tensor) -> None:
        self.layer.arrive(self.attribute, written)
