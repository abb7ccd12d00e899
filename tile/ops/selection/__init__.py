"""Operators that select, order and count elements."""
