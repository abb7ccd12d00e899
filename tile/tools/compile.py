r"""`tile compile`: compile a kernel ahead of time.

Compile a kernel ahead of time, without a GPU: write the text of every stage, and the files that a
program without Python needs to launch it.

  tile compile add.py:add --signature "*fp32:16, *fp32:16, *fp32:16, i32" \
      --constants BLOCK=1024 --target sm_90a -o out/
  tile compile softmax.py:softmax --signature "x_ptr=*fp16:16, y_ptr=*fp16:16, columns=i32:16" \
      --constants BLOCK=4096 --options num_warps=8 -o out/
  tile compile add.py:add ... --target opencl:intel -o out/

The signature lists the types of the parameters that are no constants, in order, or each with its
name: fp32, i32 and so on, with the prefix * for a pointer, and the suffix :16 for an address or
number that is divisible by 16, which makes faster code.

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
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tile import backends
from tile.backends.base import Exportable, ExportedParameter, Target
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.frontend.python.source import Parameter
from tile.runtime.compile import compile as compile_ahead
from tile.runtime.compile import jitted
from tile.runtime.kernel import CompiledKernel
from tile.runtime.signature import ParameterType
from tile.runtime.specialize import Leaf
from tile.tools.command import load_kernel, parse_arguments

_SEPARATOR = re.compile(r",(?![^\[<(]*[\]>)])")  # commas that are not inside a type

# File name extensions of stages that differ from the stage's name.
_ENDINGS = {"llvm": "ll", "opencl": "cl"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add("kernel", help="file.py:function")
    add("-s", "--signature", default="", metavar="TYPES", help="comma-separated parameter types")
    add(
        "-c", "--constants", nargs="*", default=[], metavar="NAME=VALUE",
        help="values of the other parameters",
    )  # fmt: skip
    add(
        "-p", "--options", nargs="*", default=[], metavar="NAME=VALUE", help="num_warps=8 and so on"
    )
    add(
        "-t", "--target", default="sm_90a", help="sm_90a, nvptx:sm_80, opencl:amd (default: sm_90a)"
    )
    add("-o", "--output", default=".", metavar="FOLDER", help="the folder of the files")
    add("-n", "--name", default="", help="of files and C functions (default: the kernel's)")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    function = jitted(load_kernel(options.kernel))
    target = target_named(options.target)
    kernel = compile_ahead(
        function,
        signature(options.signature, function.parameters, options.constants),
        parse_arguments(options.constants),
        parse_arguments(options.options),
        target,
    )
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


def target_named(text: str) -> Target:
    """Return a target; an architecture alone, as in `sm_90a`, is one of NVIDIA's.

    Raises `ArgumentValueError` for a backend alone: only a launch determines its architecture.
    """
    backend, colon, _ = text.partition(":")
    target = Target.parse(text if colon or backend in backends.names() else f"nvptx:{text}")
    backends.require(target.backend)
    if not target.arch:
        raise ArgumentValueError(
            f"--target {text} has no architecture; name one, as in sm_90a, nvptx:sm_80 or "
            "opencl:generic"
        )
    return target


def signature(
    text: str, parameters: Sequence[Parameter], constants: Sequence[str]
) -> dict[str, str]:
    """Return the types by parameter; types without names belong to the non-constants in order.

    Raises `ArgumentTypeError` for more types than parameters, or if only some types have names.
    """
    types = [ty.strip() for ty in _SEPARATOR.split(text) if ty.strip()]
    constant_names = {constant.partition("=")[0] for constant in constants}
    if any("=" in ty for ty in types):
        return dict(_named_type(ty) for ty in types)
    names = [p.name for p in parameters if not p.is_constexpr and p.name not in constant_names]
    if len(types) > len(names):
        raise ArgumentTypeError(
            f"the signature has {len(types)} types, and the kernel {len(names)} parameters "
            f"that are no constants: {', '.join(names)}"
        )
    return dict(zip(names, types, strict=False))


def _named_type(text: str) -> tuple[str, str]:
    name, equals, ty = (part.strip() for part in text.partition("="))
    if not equals:
        raise ArgumentTypeError(f"a signature has names for all types or for none, not {text!r}")
    return name, ty


def exported(kernel: CompiledKernel, name: str) -> Mapping[str, str | bytes]:
    """Return the contents of a compiled kernel's files, by their extensions."""
    files = {_ENDINGS.get(stage, stage): text for stage, text in kernel.artifact.stages.items()}
    parameters = [p for n, leaf in kernel.leaves.items() for p in _parameters(n, leaf)]
    backend = backends.get(kernel.target.backend)
    if isinstance(backend, Exportable):
        files |= backend.export(kernel.artifact, name, parameters)
    launch = {
        "kernel": kernel.name,
        "target": str(kernel.target),
        "arguments": [{"name": p.name, "type": p.spelling} for p in parameters],
        "constants": {n: repr(value) for n, value in kernel.constants.items()},
        "written": sorted(kernel.written),
        "launch": kernel.artifact.launch_metadata,
    }
    return {**files, "json": json.dumps(launch, indent=2) + "\n"}


def _parameters(name: str, leaf: Leaf) -> Iterator[ExportedParameter]:
    """Yield a parameter's launch arguments: one; none for a constant; several for a tuple."""
    if isinstance(leaf, ParameterType):
        yield ExportedParameter(name, leaf.type, leaf.divisible, str(leaf))
    elif isinstance(leaf, tuple):
        for index, element in enumerate(leaf):
            yield from _parameters(f"{name}_{index}", element)
