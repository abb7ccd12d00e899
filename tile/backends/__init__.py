"""Ways to run kernels; see `base` for what one is."""
