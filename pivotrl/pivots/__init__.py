"""Which turns teach? Profile, select, sample."""
