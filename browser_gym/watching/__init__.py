"""Shows the running sessions of a resources server, live and read-only."""
