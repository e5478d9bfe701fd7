"""A language model as the verifier."""
