"""Model server for OpenAI's Responses API, computer tools included."""
