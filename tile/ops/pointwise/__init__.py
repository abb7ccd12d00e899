"""Functions of corresponding elements, on flat arrays."""
