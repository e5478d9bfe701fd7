"""What the experts did: files of trajectories become turns."""
