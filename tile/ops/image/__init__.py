"""Operators of images: batch x height x width x channels, with channels innermost in memory."""
