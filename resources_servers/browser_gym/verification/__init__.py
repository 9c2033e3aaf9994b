"""Grading: one module per verifier, and the assertion language two of them share."""
