"""The report of a false assertion: a record in memory that host and device share.

The next launch of the kernel raises it. A report that no launch has seen is printed when the
program ends, or when the kernel is collected: the assertion must not stay unnoticed, and PyTorch,
which may be what waited for the device, cannot be told.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import TypeAlias

from tile.backends.nvptx import driver
from tile.backends.nvptx.launch_metadata import RECORD, REPORTED, LaunchMetadata
from tile.backends.nvptx.loaded_module import Loaded
from tile.errors import DeviceAssertionError

# i32s: the assertion's number from 1, or 0 for none; the program along x, y, z; the thread
_FIELDS = 8
_WARP = 32

Fields: TypeAlias = "ctypes.Array[ctypes.c_int32]"


class FaultRecord:
    """The record of one kernel on one device, which must be current when the record is created.

    fields: the first is not 0 if a completed launch reported a false assertion.
    """

    def __init__(self, loaded: Loaded, metadata: LaunchMetadata) -> None:
        self._metadata = metadata
        self._reported = loaded.global_address(REPORTED)
        host, device = driver.shared_with_host(4 * _FIELDS)
        self.fields: Fields = (ctypes.c_int32 * _FIELDS).from_address(host)
        driver.write_variable(loaded.global_address(RECORD), device, 64)
        weakref.finalize(self, _print_unseen, self.fields, metadata)

    def check(self) -> None:
        """Raise `DeviceAssertionError` if a completed launch reported a false assertion."""
        error = _reported(self.fields, self._metadata)
        if error is not None:
            driver.write_variable(self._reported, 0, 32)
            raise error


def _reported(fields: Fields, metadata: LaunchMetadata) -> DeviceAssertionError | None:
    """Return the error of the assertion in a record, and clear it; None if there is none."""
    number = fields[0]
    if not number:
        return None
    *program, thread = fields[1:5]
    fields[0] = 0
    warp, lane = divmod(thread, _WARP)
    where = f"thread {thread} (warp {warp}, lane {lane})"
    return metadata.assertions[number - 1].failure(metadata.kernel, program, where)


def _print_unseen(fields: Fields, metadata: LaunchMetadata) -> None:
    error = _reported(fields, metadata)
    if error is not None:
        sys.stderr.write(f"tile: {error}\nnote: nothing raised this: no launch of it followed\n")
