"""Find files of the CUDA toolkit: libdevice, ptxas, headers.

Compiling to PTX needs libdevice, and nothing else of CUDA: neither a driver nor `cuda-python`.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tile.config import config
from tile.errors import BackendError

LIBDEVICE = "nvvm/libdevice/libdevice.10.bc"
_TRITON = "triton/backends/nvidia"
_USUAL = "/usr/local/cuda"  # where NVIDIA's installers and containers put the toolkit


def roots() -> Iterator[Path]:
    """Yield the folders that may be a toolkit, in the order in which they are searched.

    NVIDIA's wheels come first, the latest version before others, then a conda environment, the
    toolkit that `CUDA_PATH` or `CUDA_HOME` names, that of the `ptxas` on PATH, the usual place, and
    last the package of Triton, which comes with PyTorch and has a ptxas.
    """
    yield from _wheels()
    yield Path(sys.prefix)
    yield from (Path(name) for name in (config.cuda_path, config.cuda_home) if name)
    program = shutil.which("ptxas")
    if program is not None:
        yield Path(program).resolve().parents[1]
    yield Path(_USUAL)
    # Not by an import: `triton` may be a name of this package (`tile.compat`).
    yield from (Path(folder, _TRITON) for folder in sys.path)


def _wheels() -> Iterator[Path]:
    """Yield the folders of wheels: one for all of CUDA 13 or later, many for CUDA 12."""
    spec = importlib.util.find_spec("nvidia")  # a namespace: no module is imported
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        yield from sorted(folder.glob("cu[1-9]*"), reverse=True)
        yield from sorted(folder.glob("cuda_*"))


def find_file(path: str) -> Path | None:
    """Return a file of the toolkit, given by its path under the root, or None."""
    return next((root / path for root in roots() if (root / path).is_file()), None)


def find_libdevice() -> Path | None:
    """Return the path of libdevice, NVIDIA's mathematical functions in LLVM bitcode, or None."""
    return (
        default_libdevice() if not config.libdevice else named("TILE_LIBDEVICE", config.libdevice)
    )


@functools.cache
def default_libdevice() -> Path | None:
    """Return the path of libdevice in a wheel or a toolkit, or None."""
    return find_file(LIBDEVICE)


def named(setting: str, path: str) -> Path:
    """Return a file that a setting names. Raises `BackendError` if there is none."""
    if not Path(path).is_file():
        raise BackendError(f"{setting}={path}: there is no such file")
    return Path(path)
