"""A small executable customer desk, its expert, and a tiny half-good base model."""
