"""PivotRL: turn-level reinforcement learning for agents, on the turns that teach (arXiv 2603.21383)."""
