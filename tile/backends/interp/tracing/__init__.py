"""Runs recorded for `tile.trace`: the memory that each access touches, and a timeline.

- `instrument.py`: code whose instructions call the recorder, so that other runs pay nothing.
- `recorder.py`: the recorder of one launch.
- `launch.py`: a launch that is recorded, with or without checks.
"""
