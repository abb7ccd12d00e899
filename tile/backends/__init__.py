"""The backends, which compile and run kernels; `base` has their interfaces."""
