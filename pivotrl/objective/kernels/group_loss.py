"""csrc/group_loss.cu as the torch operator `pivotrl::group_loss`.

Legend: S samples of a micro-batch, T its response tokens, R samples of the whole batch with their groups.
"""

import ctypes

import torch
from torch import Tensor

from pivotrl.objective.kernels.library import BUILT, TOTALS, Arguments, load

SETTINGS = tuple(
    name
    for name, kind in Arguments._fields_
    if kind is not ctypes.c_void_p and name not in ("num_samples", "num_groups")
)
"""The operator's scalars, in the order of `settings`."""


@torch.library.custom_op("pivotrl::group_loss", mutates_args=())
def group_loss(
    logp: Tensor,
    token_offsets: Tensor,
    settings: list[float],
    advantages: Tensor | None = None,
    rewards: Tensor | None = None,
    group_offsets: Tensor | None = None,
    reward_index: Tensor | None = None,
    old_logp: Tensor | None = None,
    sampler_logp: Tensor | None = None,
    reference_logp: Tensor | None = None,
    entropy: Tensor | None = None,
    mask: Tensor | None = None,
    library: str = "",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One launch: g [T], h [T], advantages [S] and totals [TOTALS], all of the micro-batch.

    Args:
        token_offsets: int32 [S + 1], rising from 0 to T; checked on a CPU only. The other tensors are those of
            `csrc/group_loss.h`, of the dtypes written there.
        settings: a number for each of SETTINGS.
        library: path of a build for the tensors' device; empty: the one for CUDA that was made at installation.

    Raises:
        ValueError: a tensor is missing, or of another device, dtype or length than the kernel reads. RuntimeError:
            CUDA's error.
    """
    device = logp.device
    if device.type != ("cpu" if library else "cuda"):
        raise ValueError(f"group_loss is not built for tensors on {device}: use objective.loss.policy_loss")
    num_tokens, num_samples = len(logp), len(token_offsets) - 1
    tensors = {
        "token_offsets": (token_offsets, torch.int32, num_samples + 1),
        "advantages": (advantages, torch.float32, num_samples),
        "rewards": (rewards, torch.float64, None),
        "group_offsets": (group_offsets, torch.int32, None),
        "reward_index": (reward_index, torch.int32, num_samples),
        "logp": (logp, torch.float32, num_tokens),
        "old_logp": (old_logp, torch.float32, num_tokens),
        "sampler_logp": (sampler_logp, torch.float32, num_tokens),
        "reference_logp": (reference_logp, torch.float32, num_tokens),
        "entropy": (entropy, torch.float32, num_tokens),
        "mask": (mask, torch.bool, num_tokens),
    }
    # Kept in a variable: the launch reads them after this line.
    inputs = {name: _ready(name, *wanted, device) for name, wanted in tensors.items() if wanted[0] is not None}
    if device.type == "cpu" and not (
        token_offsets[0] == 0 and token_offsets[-1] == num_tokens and (token_offsets.diff() >= 0).all()
    ):
        raise ValueError(f"token_offsets must rise from 0 to {num_tokens}, the tokens, got {token_offsets.tolist()}")
    from_rewards = settings[SETTINGS.index("advantage_mode")] != 0
    for name in ("rewards", "group_offsets", "reward_index") if from_rewards else ("advantages",):
        if tensors[name][0] is None:
            raise ValueError(f"{name} must be given where advantage_mode is {'not 0' if from_rewards else 0}")
    g, h, advantages_out, totals = _outputs(logp, num_samples)
    partials = torch.empty(num_samples, len(TOTALS), dtype=torch.float64, device=device)
    ticket = torch.zeros(1, dtype=torch.int32, device=device)
    outputs = {
        "g": g,
        "h": h,
        "advantages_out": advantages_out,
        "partials": partials,
        "totals": totals,
        "ticket": ticket,
    }
    kinds = dict(Arguments._fields_)
    arguments = Arguments(
        num_samples=num_samples,
        num_groups=0 if group_offsets is None else len(group_offsets) - 1,
        **{
            name: int(value) if kinds[name] is ctypes.c_int32 else value
            for name, value in zip(SETTINGS, settings, strict=True)
        },
        **{name: value.data_ptr() for name, value in (inputs | outputs).items()},
    )
    built = load(library or str(BUILT))
    with torch.cuda.device_of(logp):
        stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
        code = built.pivotrl_group_loss(ctypes.byref(arguments), stream)
    if code:
        raise RuntimeError(f"group_loss: {built.pivotrl_group_loss_error(code).decode()} (CUDA error {code})")
    return g, h, advantages_out, totals


@group_loss.register_fake
def _(logp, token_offsets, settings, *tensors, library=""):
    return _outputs(logp, token_offsets.shape[0] - 1)


def _outputs(logp: Tensor, num_samples: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    totals = torch.zeros(len(TOTALS), dtype=torch.float64, device=logp.device)
    return torch.empty_like(logp), torch.empty_like(logp), logp.new_empty(num_samples), totals


def _ready(name: str, value: Tensor, dtype: torch.dtype, length: int | None, device: torch.device) -> Tensor:
    if value.dtype != dtype or value.device != device:
        raise ValueError(f"{name} must be {dtype} on {device}, got {value.dtype} on {value.device}")
    if value.ndim != 1 or length not in (None, len(value)):
        wanted = "of one dimension" if length is None else f"[{length}]"
        raise ValueError(f"{name} must be {wanted}, got {list(value.shape)}")
    return value.contiguous()
