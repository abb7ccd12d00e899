"""The current compilation of a kernel, and its folder in TILE_DUMP.

    with compilation("add", lambda: "add(x: *fp32:16, BLOCK=64) for nvptx:sm_90a"):
        optimize(module)
        lower(module, target)

writes one folder, in which the passes of all pipelines are numbered consecutively. The folder's
name is the kernel's with a short digest of the description. Creating the folder claims it, which
only one process or thread can do, so a second compilation of the same kernel never overwrites the
first one.

Code that is nested too deeply is an error with its line: the compiler walks regions recursively on
Python's stack.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tile.config import config
from tile.errors import ArgumentValueError, CompilationError
from tile.instrumentation import Scoped
from tile.ir.core import Block
from tile.ir.module import Module
from tile.location import Loc

ALL = "all"  # in TILE_PRINT_AFTER: every pass
_DIGITS = 8  # of the digest


class Compilation:
    """The compilation of one kernel for one specialization; `describe` identifies it."""

    def __init__(self, kernel: str, describe: Callable[[], str]) -> None:
        self.kernel = kernel
        self.passes: dict[str, None] = {}  # the names of the passes that ran, in order
        self._describe = describe
        self._folder: Path | None = None
        self._numbers = itertools.count()

    def dump(self, name: str, text: str) -> None:
        """Write the next numbered file, if TILE_DUMP names a folder."""
        if config.dump:
            self.write(f"{next(self._numbers):02}-{name}.tile", text)

    def write(self, name: str, text: str) -> Path:
        """Write a file to the compilation's folder and return its path."""
        try:
            if self._folder is None:
                self._folder = self._create()
            path = self._folder / name
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ArgumentValueError(
                f"TILE_DUMP={config.dump}: cannot write the IR of `{self.kernel}` there: "
                f"{error.strerror}"
            ) from error
        return path

    def reproducer(self, text: str) -> Path:
        """Write how to reproduce a failure, and return the path.

        The file is the one that TILE_REPRODUCER names, or lies in the folder of TILE_DUMP.
        """
        if not config.reproducer:
            return self.write("reproducer.tile", text)
        path = Path(config.reproducer)
        self._put("TILE_REPRODUCER", path, lambda: path.write_text(text, encoding="utf-8"))
        return path

    def tell(self, text: str) -> None:
        """Print IR to stderr, or append it to the file that TILE_PRINT_FILE names."""
        if not config.print_file:
            sys.stderr.write(text)
            return
        path = Path(config.print_file)

        def append() -> None:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)

        self._put("TILE_PRINT_FILE", path, append)

    def _put(self, setting: str, path: Path, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise ArgumentValueError(
                f"{setting}={path}: cannot write the IR of `{self.kernel}` there: {error.strerror}"
            ) from error

    @property
    def is_dumped(self) -> bool:
        """True if a file was written."""
        return self._folder is not None

    def _create(self) -> Path:
        description = self._describe()
        digest = hashlib.sha256(description.encode()).hexdigest()[:_DIGITS]
        kernel = re.sub(r"[^\w.-]", "_", self.kernel)
        name = f"{kernel}-{digest}"
        root = Path(config.dump)
        root.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            folder = root / (name if number == 1 else f"{name}.{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            (folder / "kernel.txt").write_text(f"{description}\n", encoding="utf-8")
            return folder
        raise AssertionError("a folder that does not exist has a number")

    def end(self) -> None:
        """Report the passes of TILE_PRINT_AFTER that did not run."""
        absent = [name for name in config.print_after if name not in (*self.passes, ALL)]
        if absent:
            ran = ", ".join(self.passes) or "none"
            sys.stderr.write(
                f"// `{self.kernel}` was compiled without {', '.join(absent)}; passes: {ran}\n"
            )


_COMPILATION: Scoped[Compilation | None] = Scoped("tile_compilation", None)


@contextmanager
def compilation(kernel: str, describe: Callable[[], str]) -> Iterator[Compilation]:
    """Begin a compilation, to which the passes inside the `with` block belong."""
    current = Compilation(kernel, describe)
    with _COMPILATION.scope(current):
        yield current
        current.end()


@contextmanager
def compiling(kernel: str, describe: Callable[[], str]) -> Iterator[Compilation]:
    """Use the compilation in progress, or begin one."""
    current = _COMPILATION()
    if current is not None:
        yield current
        return
    with compilation(kernel, describe) as current:
        yield current


def nesting_error(loc: Loc | None) -> CompilationError:
    """Return the error for source or IR that is nested more deeply than Python's stack allows."""
    return CompilationError(
        "this is nested too deeply to be compiled; an `elif` counts as nested in the `if` before "
        "it, and a function as nested in its caller. Compute parts in statements of their own, or "
        "choose from a table in memory",
        loc=loc,
    )


def deepest_location(module: Module) -> Loc | None:
    """Return the location of a most deeply nested operation; works without recursion."""
    loc: Loc | None = None
    blocks: list[Block] = [function.body for function in module]
    while blocks:
        inner: list[Block] = []
        for block in blocks:
            for op in block.ops:
                loc = op.loc or loc
                inner.extend(op.regions)
        blocks = inner
    return loc
