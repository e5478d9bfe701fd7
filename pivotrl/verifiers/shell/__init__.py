"""Shell commands, parsed and never run."""
