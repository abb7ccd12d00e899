"""The patterns of `canonicalize`, by the family of operations they start from."""
