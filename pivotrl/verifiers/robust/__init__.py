"""Functional equivalence of tool calls, by the tool's schema."""
