"""Edits of source files, applied to text and never run."""
