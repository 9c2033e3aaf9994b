"""The trajectory viewer: what a rollout's model saw, did and was told."""
