"""Operators of sequences of tokens: attention and the encoding of positions."""
