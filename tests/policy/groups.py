"""Samples in ragged groups: prompts that several share and one that one has, prompts and responses of one token."""

from hypothesis import strategies as st

from pivotrl.policy.packing import Sample

ids = st.integers(1, 90)


@st.composite
def sample_lists(draw: st.DrawFn) -> list[Sample]:
    """Up to 12 samples on up to 4 prompts, in any order; a prompt may begin as another, and a response be empty."""
    prompts = draw(st.lists(st.lists(ids, min_size=1, max_size=30), min_size=1, max_size=4))
    one = st.builds(Sample, st.sampled_from(prompts), st.lists(ids, max_size=12), st.just(()), st.floats(-1, 1))
    return draw(st.lists(one, max_size=12))
