"""Group-normalised advantage and the clipped objective. Imports neither Megatron nor vLLM."""
