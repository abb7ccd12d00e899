"""Checks, traces and differential runs as users call them, and their HTML pages."""
