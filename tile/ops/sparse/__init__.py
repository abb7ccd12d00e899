"""Matrices with few blocks that are not zero, as masks of attention have."""
