"""Target-independent passes, one per file."""
