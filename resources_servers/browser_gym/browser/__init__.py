"""Where browsers come from and how one is driven."""
