"""`tile link`: join modules of IR text into one.

Join modules: what one of them declares, another one defines. A declaration is a function without a
body, and a call of it is checked against its types:

  // kernels.tile                                    // library.tile
  func @scale(%x: f32) -> (f32)                      func @scale(%x: f32) -> (f32) {
  kernel @k(%p: ptr<f32>) {                            %y = add %x, %x : f32
    %x = load %p : f32                                 return %y
    %y = call %x {callee = @scale} : f32             }
    store %p, %y
    return
  }

  tile link kernels.tile library.tile -o program.tile   write the linked module to a file
  tile link kernels.tile library.tile                   print it
  tile link kernels.tile library.tile | tile opt - -p TILE
                                                        inline @scale, and optimize
  tile link matmul.tc library.tile -D TM=32             with the kernels of a Triton-C file

The result has the definitions of all files in the order of the files, and no declarations. It is an
error, and nothing is written, if a function has two definitions or, though it is called, none; if a
declaration and the definition differ in the types or attributes of parameters, or in the types of
results; or if functions call each other in a cycle. All such errors are printed, with the lines.

Parameters may have other names in a declaration. A declaration that is not called needs no
definition. Functions of a Triton-C file are inlined into its kernels, and cannot be called from
other files. With --locations, errors in passes over the result name the lines of the files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tile.analysis.call_graph import CallGraph
from tile.errors import ArgumentValueError
from tile.ir.linker import conflicts, link
from tile.ir.module import Module
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.tools.arguments import add_define, parse_arguments
from tile.tools.command import modules, triton_c_file, write
from tile.transforms.dce import remove_uncalled
from tile.transforms.inline import inline


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="file.tile, file.tc or file.tc:kernel")
    add_define(parser)
    add("-o", "--output", metavar="FILE", help="write to a file instead of the standard output")
    add("--locations", action="store_true", help="print the location of every operation")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    values = parse_arguments(options.define)
    if values and not any(map(triton_c_file, options.files)):
        raise ArgumentValueError("--define is for Triton-C files, and there is none")
    inputs = [module for file in options.files for module in read(file, values)]
    errors = list(conflicts(inputs))
    if errors:
        for error in errors:
            print(f"error: {error}", file=sys.stderr)
        return 1
    module = link(inputs)
    verify(module)
    CallGraph(module).bottom_up()  # refuses recursion
    write(print_module(module, locations=options.locations), options.output)
    return 0


def read(file: str, values: Mapping[str, Any]) -> Iterator[Module]:
    """Yield the verified modules of a file; those of Triton-C are single kernels."""
    in_triton_c = triton_c_file(file) is not None
    for parse in modules(file, values if in_triton_c else {}):
        module = parse()
        if in_triton_c:  # the modules of two kernels have copies of the functions that both call
            inline(module)
            remove_uncalled(module)
        verify(module)
        yield module
