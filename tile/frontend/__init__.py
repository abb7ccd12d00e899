"""From Python functions to the IR."""
