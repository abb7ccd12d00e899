"""Handle standard streams that are closed, full or a broken pipe, in the same way in every command.

A reader that ends early (`tile info | head -1`) is not an error: the command exits with 141, as if
SIGPIPE had killed it, and prints nothing. Any other failure to write the output, to a full disk or
to a closed stream, is an error: one line on the standard error, and status 1.
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

BROKEN_PIPE = 128 + 13  # 13 is SIGPIPE, which `signal` lacks on some systems
INTERRUPTED = 128 + int(signal.SIGINT)
FAILED = 1


class CheckedStream(io.TextIOBase):
    """A text stream that records the first error of its writes.

    A stream that was closed when the process began is None in Python. Writes to it are dropped, as
    `print` drops them, but the error is recorded.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream: TextIO = io.StringIO() if stream is None else stream
        self.closed_before = stream is None
        self.error: OSError | None = None

    def __del__(self) -> None:
        """Leave the stream alone: `IOBase` would flush it, which may be closed by now."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str, /) -> int:
        if self.closed_before:
            if text and self.error is None:
                self.error = OSError(errno.EBADF, os.strerror(errno.EBADF))
            return len(text)
        return self._record_error(lambda: self.stream.write(text))

    def flush(self) -> None:
        self._record_error(self.stream.flush)

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def _record_error(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except OSError as error:
            self.error = self.error or error
            raise

    def discard(self) -> None:
        """Redirect the stream to the null device, so that Python can flush it at exit."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.stream.fileno())
            os.close(null)


def run_with_checked_output(run: Callable[[], int]) -> int:
    """Run a command and flush its output; return the exit status, also if the output fails.

    A `SystemExit`, as that of `--help`, propagates after the flush.
    """
    with _checked_streams() as output:
        try:
            try:
                return run()
            finally:
                output.flush()
                _raise(output.error)  # an error that the writer ignored, as argparse does
        except KeyboardInterrupt:
            _print_error("interrupted")
            return INTERRUPTED
        except OSError as error:
            if error is not output.error:
                raise  # not an error of the output
            output.discard()
            if isinstance(error, BrokenPipeError):
                return BROKEN_PIPE
            _print_error(f"error: cannot write to the standard output: {error.strerror or error}")
            return FAILED


def output_failed() -> bool:
    """Return True if a write to the standard output of a command has failed."""
    return isinstance(sys.stdout, CheckedStream) and sys.stdout.error is not None


def _raise(error: OSError | None) -> None:
    if error is not None:
        raise error


def _print_error(text: str) -> None:
    """Print to the standard error; ignore a failure to do so."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextmanager
def _checked_streams() -> Iterator[CheckedStream]:
    """Replace the standard streams by checked ones inside the `with` block; yield the output."""
    streams = sys.stdin, sys.stdout, sys.stderr
    output, errors = CheckedStream(streams[1]), CheckedStream(streams[2])
    sys.stdin, sys.stdout, sys.stderr = streams[0] or io.StringIO(), output, errors
    try:
        yield output
    finally:
        with suppress(OSError, ValueError):
            errors.flush()
        if errors.error is not None:
            errors.discard()
        sys.stdin, sys.stdout, sys.stderr = streams
