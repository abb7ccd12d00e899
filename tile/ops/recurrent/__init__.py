"""Cells of recurrent networks: a step of a sequence in one kernel."""
