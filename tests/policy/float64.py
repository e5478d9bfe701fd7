"""Float64 everywhere: what a computation gives without float32 rounding in any of its parts."""

import sys
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Float64Only(TorchFunctionMode):
    """Every float32 that a torch call of this thread asks for becomes float64.

    transformers and Megatron-Core compute RMSNorm, RoPE's angles, the router's softmax or the gradient's buffer in
    float32 whatever the model's type. Under this mode a float64 model is float64 throughout. `Tensor.type()` says
    float32 of it, which Megatron's optimizers ask for.
    """

    def __init__(self, but: tuple[str, ...] = ()) -> None:
        """Leave float32 where the innermost file outside torch ends with one of `but`, and so see what it costs."""
        super().__init__()
        self.but = but

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.type and len(args) == 1:
            return func(*args).replace("Double", "Float")
        if self.but and _caller().endswith(self.but):
            return func(*args, **kwargs)
        if func is Tensor.float:
            func = Tensor.double
        args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
        kwargs = {key: torch.float64 if value is torch.float32 else value for key, value in kwargs.items()}
        return func(*args, **kwargs)


def _caller() -> str:
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__torch_function__" or "/torch/" in frame.f_code.co_filename:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_code.co_filename
