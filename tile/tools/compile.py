r"""`tile compile`: compile a kernel ahead of time.

Compile a kernel ahead of time, without a GPU: write the text of every stage, and the files that a
program without Python needs to launch it.

  tile compile add.py:add "x=*fp32:16" "y=*fp32:16" "out=*fp32:16" n=i32 BLOCK=1024 \
      --target sm_90a -o out/
  tile compile softmax.py:softmax x=fp16[8,4096] y=fp16[8,4096] columns=4096 BLOCK=4096 \
      --options num_warps=8 -o out/
  tile compile add.py:add ... --target opencl:intel -o out/

Types can also be a list, in the order of the parameters or with names, with constants apart:

  tile compile add.py:add --signature "*fp32:16, *fp32:16, *fp32:16, i32" --constants BLOCK=1024

For NVIDIA's architectures (sm_75, sm_90a, ...), the files in out/ are
  NAME.tile, NAME.thread, NAME.ll, NAME.ptx   the text of every stage
  NAME.cubin, NAME.ptxas                      if ptxas is found (pip install nvidia-cuda-nvcc):
                                              machine code; registers, spills and memory
  NAME.h                                      for C and C++: functions that load and launch the
                                              kernel by the driver API; its first lines explain them
  NAME.json                                   the launch: symbol, threads, shared memory, arguments
For OpenCL (opencl:generic, :amd, :intel, :arm, :apple)
  NAME.cl, NAME.json                          the program, and how it is built and launched
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tile import backends
from tile.backends.capabilities import Exportable, ExportedParameter
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.compile import compile as compile_ahead
from tile.runtime.compile import jitted
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel
from tile.runtime.signature import ParameterType
from tile.runtime.specialize import Leaf
from tile.tools.arguments import (
    add_arguments,
    parse_arguments,
    parse_signature,
    parse_target,
    parse_types,
)
from tile.tools.command import load_kernel

# File name extensions of stages that differ from the stage's name.
_ENDINGS = {"llvm": "ll", "opencl": "cl"}

SYNTAX = "types and values are as in x=*fp32:16 n=i32 BLOCK=1024; see `tile compile --help`"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add_arguments(parser)
    add("-s", "--signature", default="", metavar="TYPES", help="types of parameters, by commas")
    add(
        "-c", "--constants", nargs="*", default=[], metavar="NAME=VALUE",
        help="parameters that are constants in the compiled kernel",
    )  # fmt: skip
    add(
        "-p", "--options", nargs="*", default=[], metavar="NAME=VALUE", help="num_warps=8 and so on"
    )
    add(
        "-t", "--target", default="sm_90a", help="sm_90a, nvptx:sm_80, opencl:amd (default: sm_90a)"
    )
    add(
        "-o",
        "--output",
        default=".",
        metavar="FOLDER",
        help="the folder of the files (default: the current one)",
    )
    add("-n", "--name", default="", help="of files and C functions (default: the kernel's)")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    function = jitted(load_kernel(options.kernel, parse_arguments(options.define)))
    target = parse_target(options.target)
    assert isinstance(function, JITFunction)
    types, constants = parse_signature(function, options.arguments)
    types |= parse_types(options.signature, function.parameters, options.constants)
    constants |= parse_arguments(options.constants)
    try:
        kernel = compile_ahead(function, types, constants, parse_arguments(options.options), target)
    except ArgumentTypeError as error:
        error.notes.append(SYNTAX)
        raise
    name = options.name or kernel.name
    if not name.isidentifier():
        raise ArgumentValueError(f"--name must be a C identifier, not {name!r}")
    folder = Path(options.output)
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending, content in sorted(exported(kernel, name).items()):
            path = folder / f"{name}.{ending}"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            paths.append(path)
    except OSError as error:
        raise ArgumentValueError(f"cannot write to {folder}: {error}") from error
    print(*paths, sep="\n")
    return 0


def exported(kernel: CompiledKernel, name: str) -> Mapping[str, str | bytes]:
    """Return the contents of a compiled kernel's files, by their extensions."""
    backend, artifact = backends.get(kernel.target.backend), kernel.artifact
    if isinstance(backend, Exportable):
        artifact = backend.exported_form(artifact)
    files = {_ENDINGS.get(stage, stage): text for stage, text in artifact.stages.items()}
    relied = {name for pair in artifact.disjoint for name in pair}
    parameters = [
        p._replace(noalias=p.noalias or inner in relied)
        for p, inner in zip(
            (p for n, leaf in kernel.leaves.items() for p in _parameters(n, leaf)),
            artifact.parameters,
            strict=True,
        )
    ]
    if isinstance(backend, Exportable):
        files |= backend.export(artifact, name, parameters)
    launch = {
        "kernel": kernel.name,
        "target": str(kernel.target),
        "arguments": [{"name": p.name, "type": p.spelling} for p in parameters],
        "constants": {n: repr(value) for n, value in kernel.constants.items()},
        "written": sorted(kernel.written),
        "launch": artifact.launch_metadata,
    }
    return {**files, "json": json.dumps(launch, indent=2) + "\n"}


def _parameters(name: str, leaf: Leaf) -> Iterator[ExportedParameter]:
    """Yield a parameter's launch arguments: one; none for a constant; several for a tuple."""
    if isinstance(leaf, ParameterType):
        yield ExportedParameter(name, leaf.type, leaf.divisible, str(leaf), leaf.noalias)
    elif isinstance(leaf, tuple):
        for index, element in enumerate(leaf):
            yield from _parameters(f"{name}_{index}", element)
