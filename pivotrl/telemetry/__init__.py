"""What a run says about itself: progress, metrics, report."""
