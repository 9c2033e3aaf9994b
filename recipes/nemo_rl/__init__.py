"""Training with NeMo RL."""
