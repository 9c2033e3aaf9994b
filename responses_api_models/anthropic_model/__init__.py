"""Model server for Anthropic's Messages API, computer and browser tools included."""
