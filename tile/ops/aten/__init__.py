"""Implementations of PyTorch's operators, by their schemas, for `tile.ops.use`."""
