"""Records what a person does in a browser."""
