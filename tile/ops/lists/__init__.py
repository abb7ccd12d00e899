"""Operators of lists of tensors, as optimizers have: many arrays in one launch."""
