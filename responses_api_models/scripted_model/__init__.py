"""Model server that follows a script per task."""
