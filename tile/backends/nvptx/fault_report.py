"""The report of a false assertion: a record in memory that host and device share."""

from __future__ import annotations

import ctypes

from tile.backends.nvptx import driver
from tile.backends.nvptx.launch_metadata import RECORD, REPORTED, LaunchMetadata
from tile.errors import DeviceAssertionError

# i32s: the assertion's number from 1, or 0 for none; the program along x, y, z; the thread
_FIELDS = 8
_WARP = 32


class FaultRecord:
    """The record of one kernel on one device, which must be current when the record is created."""

    def __init__(self, loaded: driver.Loaded, metadata: LaunchMetadata) -> None:
        self._metadata = metadata
        self._reported = loaded.global_address(REPORTED)
        host, device = driver.shared_with_host(4 * _FIELDS)
        self._fields = (ctypes.c_int32 * _FIELDS).from_address(host)
        driver.write_variable(loaded.global_address(RECORD), device, 64)

    def check(self) -> None:
        """Raise `DeviceAssertionError` if a completed launch reported a false assertion."""
        number = self._fields[0]
        if not number:
            return
        x, y, z, thread = self._fields[1:5]
        self._fields[0] = 0
        driver.write_variable(self._reported, 0, 32)
        assertion = self._metadata.assertions[number - 1]
        message = f": {assertion.message}" if assertion.message else ""
        warp, lane = divmod(thread, _WARP)
        raise DeviceAssertionError(
            f"device_assert failed in `{self._metadata.kernel}`{message}",
            loc=assertion.loc,
            notes=[f"in program ({x}, {y}, {z}), thread {thread} (warp {warp}, lane {lane})"],
        )
