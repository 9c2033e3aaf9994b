"""One adapter per kind of model: provider replies to canonical actions, results to input items."""
