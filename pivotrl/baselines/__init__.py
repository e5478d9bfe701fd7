"""What PivotRL is compared with: supervised fine-tuning on the same trajectories, and end-to-end RL in a live world."""
