"""Where remote browsers come from: one module per kind of service."""
