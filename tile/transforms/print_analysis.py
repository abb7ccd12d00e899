"""Passes that print what an analysis found, as notes behind the operations of each function.

    %o = arange {start = 0, end = 8} : tile<8xi32> // %o: divisible 2**30, contiguous 8

They change nothing. The notes are comments, so what is printed parses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from tile.analysis.alias import PointsTo, module_aliases, written_arguments
from tile.analysis.axis_info import axis_info
from tile.analysis.call_graph import CallGraph
from tile.analysis.liveness import Liveness, liveness
from tile.analysis.ranges import Ranges, ranges
from tile.analysis.uniformity import uniformity
from tile.ir.core import Function, Module, Operation, Value
from tile.ir.passes import module_pass
from tile.ir.printer import print_function

Name = Callable[[Value], str]


@module_pass("print-axis-info")
def print_axis_info(module: Module) -> None:
    """Print divisibility, contiguity and constancy along each axis.

    %o = arange {start = 0, end = 8} : ...    %o = arange ... // %o: divisible 2**30, contiguous 8
    """
    for function in module:
        info = axis_info(function)
        _print_values(function, {value: str(fact) for value, fact in info.facts.items()})


@module_pass("print-ranges")
def print_ranges(module: Module, *, wraps: bool = True) -> None:
    """Print the interval of each integer, and where conditions narrow that of an operand.

    %o = arange {start = 0, end = 8} : ...    %o = arange ... // %o: 0 to 7
    """
    for function in module:
        known = ranges(function, wraps=wraps)
        texts = {value: str(fact) for value, fact in known.facts.items() if fact is not None}

        def narrowed(op: Operation, name: Name, known: Ranges = known) -> list[str]:
            here = {
                name(value): known.operand(op, index)
                for index, value in enumerate(op.operands)
                if value is not None and known.operand(op, index) != known.of(value)
            }
            return [f"{value} here: {interval}" for value, interval in here.items()]

        _print_values(function, texts, narrowed)


@module_pass("print-alias")
def print_alias(module: Module) -> None:
    """Print through which parameters each pointer points, and which ones a kernel writes.

    %q = addptr %p, %o {stride = 4} : ...     %q = addptr ... // %q: %p
    """
    for function in module:
        found = module_aliases(module)[function.name]
        names = [f"%{value.name}" for value in function.args]
        pointers = {value: fact for value, fact in found.facts.items() if fact != PointsTo()}
        _print_values(function, {value: _spell(fact, names) for value, fact in pointers.items()})
        if function.kernel:
            written = written_arguments(module, function)
            listed = ", ".join(f"%{n}" for n in sorted(written)) or "nothing"
            _say(f"// {function} writes {listed}")


@module_pass("print-uniformity")
def print_uniformity(module: Module) -> None:
    """Print which values are the same for all programs.

    %p = program_id {axis = 0} : i32          %p = program_id ... // %p: varying
    """
    for function in module:
        found = uniformity(function)
        _print_values(function, {value: fact.value for value, fact in found.facts.items()})


@module_pass("print-liveness")
def print_liveness(module: Module) -> None:
    """Print the number of each operation, and the live range of each value up to its last use.

    %a = add %x, %x : i32                     %a = add %x, %x : i32 // 1; %a: 1-2
    return %a                                 return %a             // 2
    """
    for function in module:
        found = liveness(function)

        def number(op: Operation, name: Name, found: Liveness = found) -> list[str]:
            start, end = found.start(op), found.end(op)
            return [str(start) if start == end else f"{start} to {end}"]

        texts = {value: str(interval) for value, interval in found.ranges.items()}
        _print_values(function, texts, number)


@module_pass("print-call-graph")
def print_call_graph(module: Module) -> None:
    """Print which functions each function calls, and an order in which callees come first.

    kernel @k calls @f twice                  // @k calls @f (2 calls)
                                              // bottom up: @f, @k
    """
    graph = CallGraph(module)
    for line in str(graph).splitlines():
        _say(f"// {line}")
    _say(f"// bottom up: {', '.join(map(str, graph.bottom_up()))}")


def _spell(fact: PointsTo, names: list[str]) -> str:
    known = [names[index] for index in sorted(fact.parameters)]
    return ", ".join([*known, *(["unknown"] if fact.unknown else [])])


def _print_values(
    function: Function,
    texts: Mapping[Value, str],
    more: Callable[[Operation, Name], Iterable[str]] = lambda op, name: (),
) -> None:
    """Print a function with what is said of the values that each operation defines."""

    def note(op: Operation | None, name: Name) -> str:
        values = function.args if op is None else _defined(op)
        parts = [f"{name(value)}: {texts[value]}" for value in values if value in texts]
        return "; ".join([*(() if op is None else more(op, name)), *parts])

    _say(print_function(function, note=note).rstrip("\n"))


def _defined(op: Operation) -> list[Value]:
    """The results, and the arguments of the first region.

    Those of a second one have the same names.
    """
    arguments = op.regions[0].args if op.regions else []
    return [*op.results, *arguments]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
