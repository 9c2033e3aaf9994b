"""Makes training samples of rollout rows."""
