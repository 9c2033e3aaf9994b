"""Model server that continues a conversation with the exact tokens a vLLM has seen and sampled."""
