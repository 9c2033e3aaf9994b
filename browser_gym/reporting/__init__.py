"""Compares runs: how many tasks they solve, how surely, and what that takes."""
