"""The command line `browser-gym`: what one does with rollouts beside NeMo Gym's own commands."""
