"""Common parts of subcommands: kernels, programs and IR by their files, tables, and streams.

`run_program` runs a user's program as Python would.

Standard streams that are closed, full or a broken pipe are handled in the same way in every
command. A reader that ends early (`tile info | head -1`) is not an error: the command exits with
141, as if SIGPIPE had killed it, and prints nothing. Any other failure to write the output, to a
full disk or to a closed stream, is an error: one line on the standard error, and status 1.
"""

from __future__ import annotations

import errno
import importlib.util
import io
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from tile._lazy import lazy_import
from tile.config import read_environment
from tile.errors import ArgumentValueError
from tile.triton_variables import TRITON

if TYPE_CHECKING:
    from tile.compat import install_announced
    from tile.ir.module import Module
    from tile.ir.parser import parse_module
    from tile.triton_c import Program, load
else:  # programs under `tile triton` need no parser, and few commands the library of Triton-C
    install_announced = lazy_import("tile.compat", "install_announced")
    load = lazy_import("tile.triton_c", "load")
    parse_module = lazy_import("tile.ir.parser", "parse_module")


TRITON_C = ".tc"  # how the names of Triton-C files end


def load_triton_c(path: Path | str, values: Mapping[str, Any]) -> Program:
    """Load a Triton-C file; `values` are those that its host statements name."""
    return load(path, **values)


def load_kernel(text: str, values: Mapping[str, Any] | None = None) -> Any:
    """Return the object that `file.py:name` names, or `file.tc:name`, a kernel in Triton-C.

    `values` are those that the host statements of a Triton-C file name. Raises `ArgumentValueError`
    if there is no such file or name, or if the file ends the process.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier():
        raise ArgumentValueError(f"a kernel is named as in file.py:function, not {text!r}")
    if not path.is_file():
        raise ArgumentValueError(f"there is no file {file}")
    if path.suffix == TRITON_C:
        return _kernel_of(load_triton_c(path, values or {}), file, name)
    if values:
        raise ArgumentValueError(f"--define is for Triton-C files, and {file} is a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # as if Python ran the file
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as ending:
        raise ArgumentValueError(
            f"{file} ends the process when it is imported; code that runs it as a program belongs"
            " under `if __name__ == '__main__':`"
        ) from ending
    return _kernel_of(module, file, name)


def _kernel_of(owner: Any, file: str, name: str) -> Any:
    if not hasattr(owner, name):
        raise ArgumentValueError(f"{file} has no {name}")
    return getattr(owner, name)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Format a table: columns are right-aligned, except those whose indices are in `left`."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def text(line: list[str]) -> str:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([text(lines[0]), "  ".join("-" * w for w in widths), *map(text, lines[1:])])


@contextmanager
def _started_with(arguments: Sequence[str], folder: str) -> Iterator[None]:
    """Set `sys.argv` and the first entry of `sys.path` inside the `with` block."""
    argv, path = sys.argv[:], sys.path[:]
    sys.argv[:] = arguments
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path


def run_program(name: str, arguments: Sequence[str], *, module: bool = False) -> int:
    """Run a file, or a module by its name, as the main program; return its exit status.

    Raises what the program raises, and `ArgumentValueError` if there is no such file.
    """
    if read_environment(TRITON) not in (None, "", "0"):
        install_announced()
    try:
        if module:
            with _started_with([name, *arguments], ""):
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            path = Path(name)
            if not path.is_file():
                raise ArgumentValueError(f"there is no program {name}")
            with _started_with([name, *arguments], str(path.resolve().parent)):
                runpy.run_path(name, run_name="__main__")
    except SystemExit as exit_:
        return _status(exit_.code)
    except ModuleNotFoundError as error:
        if error.name == "triton":
            error.add_note(f"{TRITON}=1 in the environment lets `import triton` give tile")
        raise
    return 0


def _status(code: object) -> int:
    """Return the exit status of an argument of `sys.exit`; print it if it is a message."""
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code)
    print(code, file=sys.stderr)
    return 1


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


@dataclass
class PrintedErrors:
    """A context manager that prints an exception of a program as Python would, from its frames on.

    Others propagate. status: that of the program. interrupts: print those of the keyboard, too.
    """

    status: int = 0
    interrupts: bool = True

    def __enter__(self) -> PrintedErrors:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> bool:
        printed = Exception | KeyboardInterrupt if self.interrupts else Exception
        if kind is None or not isinstance(error, printed):
            return False
        if isinstance(error, OSError) and output_failed():
            return False  # the reader of the program's output has gone
        while frames is not None and not _is_runner(frames):
            frames = frames.tb_next
        if frames is None:
            return False  # it is no error of the program
        while frames is not None and _is_runner(frames):
            frames = frames.tb_next
        sys.excepthook(kind, error.with_traceback(frames), frames)
        self.status = INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED
        return True


def _is_runner(entry: TracebackType) -> bool:
    """Return True for a frame of the module that runs programs."""
    return entry.tb_frame.f_globals.get("__name__") == runpy.__name__


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


SEPARATOR = "// -----"


def triton_c_file(name: str) -> tuple[str, str] | None:
    """Return the path and the kernel, "" for all, of `file.tc` or `file.tc:kernel`, or None."""
    file, _, kernel = name.partition(f"{TRITON_C}:")
    if kernel:
        return file + TRITON_C, kernel
    return (name, "") if name.endswith(TRITON_C) else None


def modules(
    name: str, values: Mapping[str, Any], *, split: bool = False
) -> Iterator[Callable[[], Module]]:
    """Yield functions that return the modules of a file: of IR text, or of a Triton-C file.

    `values` are those that a Triton-C file takes. With `split`, the chunks of IR text between
    separators are modules of their own.
    """
    triton_c = triton_c_file(name)
    if triton_c is not None:
        yield from _triton_c_modules(*triton_c, values)
        return
    if values:
        raise ArgumentValueError("--define is for Triton-C files")
    text, file = _read(name)
    for chunk in chunks(text) if split else [text]:
        yield partial(parse_module, chunk, file)


def _triton_c_modules(
    path: str, name: str, values: Mapping[str, Any]
) -> Iterator[Callable[[], Module]]:
    """Yield functions that return the modules of a Triton-C file's kernels, or of the one named.

    A tunable that `values` does not give has its first value in the file.
    """
    kernels = list(load_triton_c(path, values))
    if name and name not in [kernel.__name__ for kernel in kernels]:
        raise ArgumentValueError(f"{path} has no kernel {name}")
    for kernel in kernels:
        if not name or kernel.__name__ == name:
            yield kernel.module


def chunks(text: str) -> Iterator[str]:
    """Yield the chunks of a text between separators, padded with empty lines at the front.

    The padding preserves the line numbers of the whole text.
    """
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.rstrip() == SEPARATOR:
            yield "".join(lines)
            lines = ["\n"] * (number + 1)
        else:
            lines.append(line)
    yield "".join(lines)


def _read(file: str) -> tuple[str, str]:
    """Return the text, and the name of the file for messages."""
    if file == "-":
        return sys.stdin.read(), "<stdin>"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentValueError(f"cannot read {file}: {error}") from error


def write(text: str, file: str | None) -> None:
    """Write text to a file, or for None to the standard output."""
    if file is None:
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentValueError(f"cannot write {file}: {error}") from error
