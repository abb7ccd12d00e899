"""The patterns of `canonicalize`, by family of their root operations."""
