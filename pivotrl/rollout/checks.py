"""What cannot work, said before vLLM starts or a token is sampled. Pure."""

from collections.abc import Sequence
from pathlib import Path

from pivotrl.json_object import JsonObject
from pivotrl.rollout.config import RolloutConfig
from pivotrl.rollout.records import Request


def check_engine(config: RolloutConfig, model_path: str | Path, world_size: int, kind: str = "cuda") -> None:
    """Stop if the model folder, the context or the engines' layout cannot be used.

    Args:
        kind: "cpu" or "cuda".

    Raises:
        ValueError: it names the configuration's key or config.json's, what was found and what to write instead.
    """
    file = Path(model_path) / "config.json"
    if not file.is_file():
        raise ValueError(f"model.path: no config.json in {model_path}: give a Hugging Face model folder")
    model = JsonObject(file)
    positions, heads = model.size("max_position_embeddings"), model.size("num_attention_heads")
    if config.expert_parallel and kind == "cpu":
        raise ValueError(
            "rollout.expert_parallel is true on a CPU, where vLLM's kernel takes every expert for its own and would "
            "read past its weights: leave it false here"
        )
    if config.sleep and kind == "cpu":
        raise ValueError(
            "rollout.sleep is true on a CPU, where vLLM's engines cannot sleep: leave it unset, or write false"
        )
    inner = "moe_intermediate_size" if model.values.get("moe_intermediate_size") else "intermediate_size"
    check_engine_layout(
        config,
        world_size,
        positions=positions,
        heads=heads,
        kv_heads=model.size("num_key_value_heads", default=heads),
        inner={inner: model.size(inner)},
        experts=model.size("num_experts", "num_local_experts") if config.expert_parallel else 0,
    )


def check_engine_layout(
    config: RolloutConfig,
    world_size: int,
    *,
    positions: int,
    heads: int,
    kv_heads: int,
    inner: dict[str, int],
    experts: int,
) -> None:
    """Stop if engines of this layout cannot hold a model of these sizes.

    Args:
        positions: longest context of the model.
        inner: the inner width of its MLPs, or of its experts, under its key in config.json.
        experts: of a layer, where `rollout.expert_parallel` is on.

    Raises:
        ValueError: it names the configuration's key, what was found and what to write instead.
    """
    if config.max_model_len is not None and config.max_model_len > positions:
        raise ValueError(
            f"rollout.max_model_len is {config.max_model_len}, but the model has {positions} positions: lower it"
        )
    if config.expert_parallel and (config.tensor == 1 or experts < config.tensor):
        raise ValueError(
            f"rollout.expert_parallel is true with rollout.tensor {config.tensor} and {experts} experts a layer, which "
            "leaves nothing to divide: leave it false, or use 2 to as many ranks as there are experts"
        )
    split = [(world_size, "ranks that were started"), (heads, "attention heads")]
    columns = {} if config.expert_parallel else inner
    for number, what in split + [(width, f"columns of {name}") for name, width in columns.items()]:
        if number % config.tensor:
            raise ValueError(
                f"rollout.tensor is {config.tensor}, which does not divide the {number} {what}: use a divisor of it"
            )
    if kv_heads % config.tensor and config.tensor % kv_heads:
        raise ValueError(
            f"rollout.tensor is {config.tensor}, which neither divides the {kv_heads} key-value heads nor is a "
            "multiple of them: use one that does"
        )


def check_requests(requests: Sequence[Request], max_model_len: int) -> None:
    """Stop if a prompt with its `max_tokens` is longer than the context, or empty.

    Raises:
        ValueError: it names the request and both numbers.
    """
    for number, request in enumerate(requests):
        if not request.prompt_ids:
            raise ValueError(f"request {number}: the prompt is empty")
        if len(request.prompt_ids) + request.max_tokens > max_model_len:
            raise ValueError(
                f"request {number}: a prompt of {len(request.prompt_ids)} tokens with max_tokens {request.max_tokens} "
                f"does not fit rollout.max_model_len {max_model_len}: raise it, or leave the turn out"
            )
