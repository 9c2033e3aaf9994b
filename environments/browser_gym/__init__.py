"""NeMo Gym catalogue entry of the browser environment."""
