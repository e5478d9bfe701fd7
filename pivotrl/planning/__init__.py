"""Memory, time and layout of a run, computed from its configuration and the model's sizes, without a GPU."""
