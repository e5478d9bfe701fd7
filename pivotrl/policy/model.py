"""A Megatron GPTModel from a Hugging Face architecture."""

from typing import Any

import torch

from pivotrl.policy import device
from pivotrl.policy.architecture import Architecture
from pivotrl.policy.config import ParallelConfig, Recompute
from pivotrl.policy.mapping import padded_vocab

__all__ = ["Architecture", "build_model", "transformer_config"]


def transformer_config(
    arch: Architecture,
    parallel: ParallelConfig,
    dtype: torch.dtype,
    recompute: Recompute = "none",
    aux_loss: float = 0.0,
) -> Any:
    """Megatron's TransformerConfig for the architecture on this layout.

    `perform_initialization` stays on though weights are loaded afterwards: it also marks parameters as
    tensor-parallel, and without the marks Megatron's gradient norm is wrong without an error.
    """
    from megatron.core.transformer import TransformerConfig

    on_gpu = device.current().kind == "cuda"
    moe = {}
    if arch.experts:
        moe = {
            "num_moe_experts": arch.experts,
            "moe_ffn_hidden_size": arch.expert_ffn,
            "moe_router_topk": arch.top_k,
            "moe_router_score_function": "softmax",
            # softmax over the chosen logits equals softmax, top-k and scaling the chosen to sum to one
            "moe_router_pre_softmax": not arch.normalize_top_k,
            "moe_router_dtype": "fp32",
            "moe_router_load_balancing_type": "aux_loss" if aux_loss else "none",
            "moe_aux_loss_coeff": aux_loss,
            "moe_grouped_gemm": device.current().transformer_engine,
            "moe_permute_fusion": device.current().transformer_engine,
        }
    if recompute == "full":
        moe |= {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    elif recompute == "selective":
        moe |= {"recompute_granularity": "selective", "recompute_modules": ["mlp", "moe"]}
    return TransformerConfig(
        num_layers=arch.layers,
        hidden_size=arch.hidden,
        num_attention_heads=arch.heads,
        num_query_groups=arch.kv_heads,
        kv_channels=arch.head_dim,
        ffn_hidden_size=arch.ffn,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=arch.attention_bias,
        normalization="RMSNorm",
        layernorm_epsilon=arch.norm_eps,
        qk_layernorm=arch.qk_norm,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        attention_softmax_in_fp32=True,
        tensor_model_parallel_size=parallel.tensor,
        pipeline_model_parallel_size=parallel.pipeline,
        virtual_pipeline_model_parallel_size=parallel.virtual_pipeline if parallel.virtual_pipeline > 1 else None,
        # A batch of messages to both neighbours is matched by order, and with two stages both are the same rank: one
        # direction at a time then.
        overlap_p2p_comm=parallel.virtual_pipeline > 1,
        batch_p2p_comm=parallel.virtual_pipeline == 1,
        expert_model_parallel_size=parallel.expert,
        expert_tensor_parallel_size=parallel.expert_tensor,
        sequence_parallel=parallel.sequence_parallel,
        # also for dense models: the other dispatchers refuse variable lengths
        moe_token_dispatcher_type="alltoall",
        # packed rows have lengths of their own, which pipeline stages must tell each other
        variable_seq_lengths=parallel.pipeline > 1,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        use_cpu_initialization=not on_gpu,
        bias_activation_fusion=on_gpu,
        bias_dropout_fusion=on_gpu,
        persist_layer_norm=on_gpu,
        apply_rope_fusion=device.current().transformer_engine,
        masked_softmax_fusion=False,
        # For Megatron's own linear layers, which stop without Apex's kernel; Transformer Engine's: see build_model.
        gradient_accumulation_fusion=device.current().gradient_fusion == "apex",
        cross_entropy_loss_fusion=False,
        **moe,
    )


def build_model(
    arch: Architecture,
    parallel: ParallelConfig,
    dtype: torch.dtype | str,
    recompute: Recompute = "none",
    aux_loss: float = 0.0,
    model_class: type | None = None,
) -> list[Any]:
    """Build this rank's shard of the model with random weights; load real ones with `weights.load_hf`.

    Needs `parallel.initialize` before.

    Args:
        arch: the architecture, checked against the layout by `parallel.check_layout`.
        parallel: the layout.
        dtype: type of the parameters, or its name. For bfloat16 training, wrap in Megatron's Float16Module.
        recompute: activations that the backward pass recomputes, see `ModelConfig`.
        aux_loss: weight of the load-balancing loss; above 0 the model is run by a `load_balance.LoadBalance`.
        model_class: a subclass of GPTModel, such as the trainer's `head.PolicyModel`, which makes no logits.

    Returns:
        The GPTModels of this pipeline stage: one, or `parallel.virtual_pipeline` chunks in the order of their layers.
    """
    device.prepare()
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel

    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    config = transformer_config(arch, parallel, dtype, recompute, aux_loss)
    make_spec = _transformer_engine_spec if device.current().transformer_engine else _local_spec
    chunks = parallel.virtual_pipeline
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()

    def build(chunk: int) -> Any:
        vp_stage = chunk if chunks > 1 else None
        return (model_class or GPTModel)(
            config,
            make_spec(config, arch, vp_stage),
            vocab_size=padded_vocab(arch, parallel.tensor),
            max_sequence_length=arch.max_positions,
            position_embedding_type="rope",
            rotary_base=arch.rope_theta,
            rotary_percent=1.0,
            rope_scaling=arch.rope_factor is not None,
            rope_scaling_factor=arch.rope_factor or 1.0,
            share_embeddings_and_output_weights=arch.tied,
            parallel_output=True,
            pre_process=first and chunk == 0,
            post_process=last and chunk == chunks - 1,
            vp_stage=vp_stage,
        )

    with device.scope():
        models = [build(chunk) for chunk in range(chunks)]
    for model in models:
        model.vocabulary = arch.vocab
        _zero_padding(model, arch)
    for name, parameter in (item for model in models for item in model.named_parameters()):
        if ".experts." in name:
            # Reduce over the expert-data-parallel group. Megatron marks them so only where expert > 1; at expert 1 and
            # expert_tensor != tensor each tensor rank would keep the gradient of its own tokens, without an error.
            parameter.allreduce = False
    if device.current().gradient_fusion == "transformer_engine":
        for module in (module for model in models for module in model.modules()):
            if hasattr(module, "fuse_wgrad_accumulation"):
                module.fuse_wgrad_accumulation = True
    return [model.to(device.current().torch_device) for model in models]


def _zero_padding(model: Any, arch: Architecture) -> None:
    """Zero the rows beyond the vocabulary. A checkpoint's load does the same, see `mapping.padded_vocab`."""
    for name, parameter in model.named_parameters():
        if name in ("embedding.word_embeddings.weight", "output_layer.weight"):
            first = len(parameter) * model.pg_collection.tp.rank()
            parameter.data[max(0, arch.vocab - first) :].zero_()


def _local_spec(config: Any, arch: Architecture, vp_stage: int | None) -> Any:
    """Layers of plain torch modules, with SDPA attention and an RMSNorm that allows sequence parallelism."""
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec

    from pivotrl.policy.attention import SdpaAttention
    from pivotrl.policy.norm import RmsNorm

    layer = get_gpt_layer_local_spec(
        num_experts=arch.experts or None,
        moe_grouped_gemm=False,
        qk_layernorm=arch.qk_norm,
        normalization="RMSNorm",
    )
    layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = RmsNorm
    if arch.experts:  # as Transformer Engine's layers store it, whose norm is fused with a dense MLP only
        del layer.submodules.sharded_state_dict_keys_map["pre_mlp_layernorm."]
    attention = layer.submodules.self_attention.submodules
    attention.core_attention = SdpaAttention
    if arch.qk_norm:
        attention.q_layernorm = attention.k_layernorm = RmsNorm
    return _block(config, arch, layer, RmsNorm, vp_stage)


def _transformer_engine_spec(config: Any, arch: Architecture, vp_stage: int | None) -> Any:
    """Layers of Transformer Engine, whose attention takes packed rows as they are. GPU only."""
    from megatron.core.extensions.transformer_engine import TENorm
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec

    from pivotrl.policy.attention import transformer_engine_attention

    layer = get_gpt_layer_with_transformer_engine_spec(
        num_experts=arch.experts or None,
        moe_grouped_gemm=bool(arch.experts),
        qk_layernorm=arch.qk_norm,
    )
    layer.submodules.self_attention.submodules.core_attention = transformer_engine_attention()
    return _block(config, arch, layer, TENorm, vp_stage)


def _block(config: Any, arch: Architecture, layer: Any, norm: type, vp_stage: int | None) -> Any:
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build

    from pivotrl.policy.load_balance import BalancedRouter

    if arch.experts:
        layer.submodules.mlp.submodules.router = BalancedRouter
    if arch.output_bias:
        attention = layer.submodules.self_attention.submodules
        attention.linear_proj = _always_biased(attention.linear_proj)
    layers = [layer] * get_num_layers_to_build(config, vp_stage)
    return TransformerBlockSubmodules(layer_specs=layers, layer_norm=norm)


def _always_biased(linear: type) -> type:
    """Megatron ties the output projection's bias to the MLP's; the supported models with one have it alone."""

    class BiasedOutput(linear):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, bias: bool, **kwargs: Any) -> None:
            super().__init__(*args, bias=True, **kwargs)

    return BiasedOutput
