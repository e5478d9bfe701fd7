"""One file format per module."""
