"""Differential runs: repeat launches in ways that must not change their results."""
