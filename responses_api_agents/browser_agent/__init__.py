"""Agent: runs episodes between a model server and the browser environment."""
