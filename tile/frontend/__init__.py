"""Frontends: from source programs to TILE IR. There is one, `python`."""
