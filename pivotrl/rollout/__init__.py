"""Co-located vLLM engines: sampling, parsing, refit and its proof."""
