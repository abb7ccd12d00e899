"""Runs that are recorded for `tile.trace`: what each access touches, and who did what when.

- `instrument.py`: code whose instructions tell of themselves, so that other runs pay nothing.
- `recorder.py`: what one launch tells.
- `launch.py`: a launch that is recorded, with or without checks.
"""
