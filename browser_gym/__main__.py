"""`python -m browser_gym`."""

from browser_gym.cli import app

app(prog_name="browser-gym")
