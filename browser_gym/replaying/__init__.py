"""Re-executes rollouts and compares what comes of it."""
