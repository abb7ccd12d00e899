"""Standard streams that are closed, full, or read by nobody, as every command treats them.

A reader that ends early (`tile info | head -1`) is no error: the command ends with 141, as one that
SIGPIPE ended, and says nothing. Output that cannot be written otherwise, to a full disk or a closed
stream, is one: a line on the standard error, and status 1.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

BROKEN_PIPE = 128 + 13  # SIGPIPE, by its number where a system has none
INTERRUPTED = 128 + int(signal.SIGINT)
FAILED = 1


class Watched(io.TextIOBase):
    """A text stream that remembers the first error of its writes.

    Of one that was closed when the process began, where Python has None, nothing else is possible:
    what is written is dropped, as `print` does it, and the error is remembered.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream: TextIO = io.StringIO() if stream is None else stream
        self.closed_before = stream is None
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str, /) -> int:
        if self.closed_before:
            if text and self.error is None:
                self.error = OSError(errno.EBADF, os.strerror(errno.EBADF))
            return len(text)
        return self._watched(lambda: self.stream.write(text))

    def flush(self) -> None:
        self._watched(self.stream.flush)

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def _watched(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            self.error = self.error or error
            raise

    def discard(self) -> None:
        """Write to nowhere from here on, so that Python does not fail to flush it at its end."""
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


def guarded(run: Callable[[], int]) -> int:
    """Run a command, and write out what it printed; its exit status, or that of a failed output.

    `SystemExit` goes through, as that of `--help`, once all is written.
    """
    with _watched_streams() as output:
        try:
            try:
                return run()
            finally:
                output.flush()
                _raise(output.error)  # of a write that somebody passed over, as argparse does
        except KeyboardInterrupt:
            _tell("interrupted")
            return INTERRUPTED
        except OSError as error:
            if error is not output.error:
                raise  # of something else
            output.discard()
            if isinstance(error, BrokenPipeError):
                return BROKEN_PIPE
            _tell(f"error: cannot write to the standard output: {error.strerror or error}")
            return FAILED


def output_failed() -> bool:
    """Return True if something could not be written to the standard output of a command."""
    return isinstance(sys.stdout, Watched) and sys.stdout.error is not None


def _raise(error: OSError | None) -> None:
    if error is not None:
        raise error


def _tell(text: str) -> None:
    """Print to the standard error, if that can be written."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextmanager
def _watched_streams() -> Iterator[Watched]:
    """Streams that are there and are watched, inside the `with` block; the one for the output."""
    before = sys.stdin, sys.stdout, sys.stderr
    output, errors = Watched(before[1]), Watched(before[2])
    sys.stdin, sys.stdout, sys.stderr = before[0] or io.StringIO(), output, errors
    try:
        yield output
    finally:
        with suppress(OSError, ValueError):
            errors.flush()
        if errors.error is not None:
            errors.discard()
        sys.stdin, sys.stdout, sys.stderr = before
