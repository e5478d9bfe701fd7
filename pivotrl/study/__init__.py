"""The contest of PivotRL, its ablations and its rivals on the demo world, and the paper's theory, checked."""
