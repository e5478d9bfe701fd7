"""The policy on Megatron-Core: layout, model, weights, training step, checkpoints."""
