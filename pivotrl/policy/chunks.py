"""The model of one pipeline stage: a GPTModel, or several where the interleaved schedule takes turns between them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter


class Chunks(Sequence):
    """A stage's GPTModels in the order of their layers, which answer as one model.

    The names of chunk v's parameters and state begin with `chunk{v}.`, as `mapping.params_of_rank` has them; a single
    chunk's are the model's own. What a sharded checkpoint stores is keyed by the layer's place in the whole model, so
    any layout reads what any other one wrote.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self._models = list(models)
        several = len(self._models) > 1
        self._prefixes = [f"chunk{v}." if several else "" for v in range(len(self._models))]

    def __getitem__(self, index: Any) -> Any:
        return self._models[index]

    def __len__(self) -> int:
        return len(self._models)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter of the stage; the embedding of a tied model once, under its first name."""
        for prefix, model in zip(self._prefixes, self._models, strict=True):
            for name, parameter in model.named_parameters():
                yield prefix + name, parameter

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of `named_parameters`, in its order."""
        return (parameter for _, parameter in self.named_parameters())

    def modules(self) -> Iterator[Module]:
        """Every module of every chunk."""
        for model in self._models:
            yield from model.modules()

    def sharded_state_dict(self) -> dict[str, Any]:
        """Megatron's description of every tensor of the stage, for `dist_checkpointing` and the optimizer's state."""
        return {
            prefix + name: value
            for prefix, model in zip(self._prefixes, self._models, strict=True)
            for name, value in model.sharded_state_dict().items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Copy a state of the names of `sharded_state_dict` into the parameters; a missing or unknown name stops."""
        for prefix, model in zip(self._prefixes, self._models, strict=True):
            model.load_state_dict({name[len(prefix) :]: x for name, x in state.items() if name.startswith(prefix)})
        unknown = [name for name in state if not name.startswith(tuple(self._prefixes))]
        assert not unknown, f"state of no chunk: {unknown[:3]}"
