"""Matrix multiplication in its forms."""
