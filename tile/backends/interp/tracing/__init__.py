"""Runs recorded for `tile.trace`: the memory that each access touches, and a timeline.

`recorder.py` has code whose instructions call the recorder, so that other runs pay nothing, the
recorder of one launch, and launches that are recorded, with or without checks. What it records is a
`TraceData` (`tile/trace_data.py`).
"""
