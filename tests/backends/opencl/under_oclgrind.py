"""A kernel on Oclgrind, which logs races, accesses out of bounds and divergence; a program.

    python tests/backends/opencl/under_oclgrind.py NAME [N]

The variables of `tests.oclgrind` say what it checks, and where it writes that. With a number N, the
N-th barrier of the program's text is left out.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace

from tests.backends.opencl.test_kernels import results
from tests.simt.kernels import KERNELS
from tests.simt.test_lowering import agree
from tile.backends.opencl import BACKEND
from tile.backends.opencl.launch_metadata import LaunchMetadata

BARRIER = re.compile(r"^\s*barrier\(.*\);$", re.M)


def without(text: str, number: int) -> str:
    """A program without one of its barriers."""
    match = list(BARRIER.finditer(text))[number]
    return text[: match.start()] + text[match.end() :]


def main(name: str, left_out: str | None = None) -> None:
    kernel = KERNELS[name]
    artifact = kernel.compile("opencl:oclgrind", num_warps=2, num_stages=2).artifact
    if left_out is not None:
        emitted = LaunchMetadata.of(artifact.launch_metadata)
        changed = replace(emitted, numbered=without(emitted.numbered, int(left_out)))
        artifact = replace(artifact, launch_metadata=changed.data())
    arguments = kernel.arguments()
    BACKEND.load(artifact).launch(kernel.grid, arguments)
    if left_out is None:
        wanted = kernel.arguments()
        interpreted = kernel.compile("interp")
        interpreted.executable.launch(kernel.grid, wanted)
        agree(kernel, results(arguments), results(wanted))


if __name__ == "__main__":
    main(*sys.argv[1:])
