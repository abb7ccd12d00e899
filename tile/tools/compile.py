"""`tile compile`: a kernel ahead of time, for programs without Python."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tile.backends import registry
from tile.backends.base import Exportable, ExportedParameter, Target
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.frontend.source import Parameter
from tile.runtime.compile import compile as compile_ahead
from tile.runtime.compile import jitted
from tile.runtime.kernel import CompiledKernel
from tile.runtime.signature import ParameterType
from tile.runtime.specialise import Leaf
from tile.tools.command import Command
from tile.tools.kernel_arguments import load_kernel, parse_arguments

DESCRIPTION = """\
Compile a kernel ahead of time, with no GPU: write the text of every stage, and what a program
without Python needs to launch it.

  tile compile add.py:add --signature "*fp32:16, *fp32:16, *fp32:16, i32" \\
      --constants BLOCK=1024 --target sm_90a -o out/
  tile compile softmax.py:softmax --signature "x_ptr=*fp16:16, y_ptr=*fp16:16, columns=i32:16" \\
      --constants BLOCK=4096 --options num_warps=8 -o out/
  tile compile add.py:add ... --target opencl:intel -o out/

The signature has the types of the parameters that are no constants, in order, or each with its
name: fp32, i32 and so on, with * in front for a pointer, and :16 behind for an address or number
that is divisible by 16, which makes faster code.

For NVIDIA's architectures (sm_75, sm_90a, ...), out/ gets
  NAME.tile, NAME.thread, NAME.ll, NAME.ptx   what the compiler made, stage by stage
  NAME.cubin, NAME.ptxas                      where ptxas is (pip install nvidia-cuda-nvcc): the
                                              machine's code; registers, spills and memory
  NAME.h                                      for C and C++: functions that load and launch the
                                              kernel by the driver's API; its first lines say how
  NAME.json                                   the launch: symbol, threads, shared memory, arguments
For OpenCL (opencl:generic, :amd, :intel, :arm, :apple)
  NAME.cl, NAME.json                          the program, and how it is built and launched
"""

_BETWEEN = re.compile(r",(?![^\[<(]*[\]>)])")  # commas, but for those inside a type

# Endings of the files of stages; others are the stage's name.
_ENDINGS = {"llvm": "ll", "opencl": "cl"}


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kernel", help="file.py:function")
    add("-s", "--signature", default="", metavar="TYPES", help="types of the parameters, by commas")
    add("-c", "--constants", nargs="*", default=[], metavar="NAME=VALUE", help="of the others")
    add(
        "-p", "--options", nargs="*", default=[], metavar="NAME=VALUE", help="num_warps=8 and so on"
    )
    add(
        "-t", "--target", default="sm_90a", help="sm_90a, nvptx:sm_80, opencl:amd (default: sm_90a)"
    )
    add("-o", "--output", default=".", metavar="FOLDER", help="where files are written")
    add("-n", "--name", default="", help="of files and C functions (default: the kernel's)")


def _run(options: argparse.Namespace) -> int:
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
        raise ArgumentValueError(f"--name is a name as in C, not {name!r}")
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
    """A target; an architecture alone is one of NVIDIA's.

    Raises `ArgumentValueError` for one without an architecture, which is known at a launch only.
    """
    backend, colon, _ = text.partition(":")
    target = Target.parse(text if colon or backend in registry.names() else f"nvptx:{text}")
    registry.require(target.backend)
    if not target.arch:
        raise ArgumentValueError(
            f"--target {text} leaves open what for; name an architecture, as in sm_90a, "
            "nvptx:sm_80 or opencl:generic"
        )
    return target


def signature(
    text: str, parameters: Sequence[Parameter], constants: Sequence[str]
) -> dict[str, str]:
    """Types by parameter. Those without names are of the parameters that no constant is given for.

    Raises `ArgumentTypeError` for more or fewer of them than there are such parameters.
    """
    words = [word.strip() for word in _BETWEEN.split(text) if word.strip()]
    given = {word.partition("=")[0] for word in constants}
    if any("=" in word for word in words):
        return dict(_named(word) for word in words)
    open_ones = [p.name for p in parameters if not p.is_constexpr and p.name not in given]
    if len(words) > len(open_ones):
        raise ArgumentTypeError(
            f"the signature has {len(words)} types, and the kernel {len(open_ones)} parameters "
            f"that are no constants: {', '.join(open_ones)}"
        )
    return dict(zip(open_ones, words, strict=False))


def _named(word: str) -> tuple[str, str]:
    name, equals, ty = (part.strip() for part in word.partition("="))
    if not equals:
        raise ArgumentTypeError(f"a signature has names for all types or for none, not {word!r}")
    return name, ty


def exported(kernel: CompiledKernel, name: str) -> Mapping[str, str | bytes]:
    """The files of a compiled kernel, by their endings."""
    files = {_ENDINGS.get(stage, stage): text for stage, text in kernel.artifact.stages.items()}
    parameters = [one for n, leaf in kernel.leaves.items() for one in _parameters(n, leaf)]
    backend = registry.get(kernel.target.backend)
    if isinstance(backend, Exportable):
        files |= backend.export(kernel.artifact, name, parameters)
    launch = {
        "kernel": kernel.name,
        "target": str(kernel.target),
        "arguments": [{"name": p.name, "type": p.spelling} for p in parameters],
        "constants": {n: repr(value) for n, value in kernel.constants.items()},
        "written": sorted(kernel.written),
        "launch": kernel.artifact.facts,
    }
    return {**files, "json": json.dumps(launch, indent=2) + "\n"}


def _parameters(name: str, leaf: Leaf) -> Iterator[ExportedParameter]:
    """The launch's arguments for a parameter: one, none for a constant, several for a tuple."""
    if isinstance(leaf, ParameterType):
        yield ExportedParameter(name, leaf.type, leaf.divisible, str(leaf))
    elif isinstance(leaf, tuple):
        for index, part in enumerate(leaf):
            yield from _parameters(f"{name}_{index}", part)


COMMAND = Command("compile", "compile a kernel ahead of time", DESCRIPTION, _configure, _run)
