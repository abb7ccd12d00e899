"""Rewrites of IR that hold on any machine, one pass a file."""
