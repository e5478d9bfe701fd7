"""For which numbers of sequences an engine on a GPU captures a CUDA graph of its decode step."""


def capture_sizes(max_num_seqs: int, group: int) -> list[int]:
    """Powers of two up to `max_num_seqs`, that number itself, and one group of samples.

    A batch takes the next larger graph and pads. While most sequences run, a decode step reads weights, of which a few
    more sequences cost nothing; vLLM's own list (every multiple of 8, then of 16) is five times as long, and each graph
    takes seconds of the start and memory.

    Args:
        group: samples of one prompt: as many as an engine decodes when one group is left.
    """
    powers = [2**n for n in range(max_num_seqs.bit_length()) if 2**n <= max_num_seqs]
    return sorted({*powers, max_num_seqs, min(group, max_num_seqs)})
