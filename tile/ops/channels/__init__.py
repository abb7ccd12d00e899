"""Sums over channels, and normalizations of channels or groups of them."""
