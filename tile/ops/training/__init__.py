"""Operators of training and of reduced precision."""
