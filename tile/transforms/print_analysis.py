"""Passes that print the results of analyses, as comments after the operations of each function.

    %o = arange {start = 0, end = 8} : tile<8xi32> // %o: divisible 2**30, contiguous 8

They do not change the IR, and the printed text parses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from tile.analysis.alias import PointsTo, module_aliases, written_arguments
from tile.analysis.axis_info import axis_info
from tile.analysis.call_graph import CallGraph
from tile.analysis.index_forms import IndexForms, NoFormError, Remainder
from tile.analysis.liveness import Liveness, liveness
from tile.analysis.pointer_blocks import UNBOUNDED, PointerBlock, PointerBlocks
from tile.analysis.polynomial import Polynomial
from tile.analysis.ranges import Ranges, ranges
from tile.analysis.uniformity import uniformity
from tile.ir.core import Function, Operation, Value
from tile.ir.module import Module
from tile.ir.ops import memory
from tile.ir.passes import module_pass
from tile.ir.printer import print_function

Name = Callable[[Value], str]


@module_pass("print-axis-info")
def print_axis_info(module: Module) -> None:
    """Print divisibility, contiguity and constancy along each axis.

    They follow each operation as a comment:

        %o = arange {start = 0, end = 8} : ...  %o = arange ... // %o: divisible 2**30, contiguous 8
    """
    for function in module:
        info = axis_info(function)
        _print_values(function, {value: str(fact) for value, fact in info.facts.items()})


@module_pass("print-ranges")
def print_ranges(module: Module, *, wraps: bool = True) -> None:
    """Print the interval of each integer, and the operands that conditions narrow.

    They follow each operation as a comment:

        %o = arange {start = 0, end = 8} : ...    %o = arange ... // %o: 0 to 7
    """
    for function in module:
        result = ranges(function, wraps=wraps)
        texts = {value: str(fact) for value, fact in result.facts.items() if fact is not None}

        def narrowed(op: Operation, name: Name, result: Ranges = result) -> list[str]:
            intervals = {
                name(value): result.operand(op, index)
                for index, value in enumerate(op.operands)
                if value is not None and result.operand(op, index) != result.of(value)
            }
            return [f"{value} here: {interval}" for value, interval in intervals.items()]

        _print_values(function, texts, narrowed)


@module_pass("print-alias")
def print_alias(module: Module) -> None:
    """Print the parameters to which each pointer may point, and those that a kernel writes.

    They follow each operation as a comment:

        %q = addptr %p, %o {stride = 4} : ...     %q = addptr ... // %q: %p
    """
    for function in module:
        facts = module_aliases(module)[function.name].facts
        names = [f"%{value.name}" for value in function.args]
        pointers = {value: fact for value, fact in facts.items() if fact != PointsTo()}
        _print_values(function, {value: _spell(fact, names) for value, fact in pointers.items()})
        if function.kernel:
            written = written_arguments(module, function)
            listed = ", ".join(f"%{n}" for n in sorted(written)) or "nothing"
            _say(f"// {function} writes {listed}")


@module_pass("print-uniformity")
def print_uniformity(module: Module, *, axis: int = -1) -> None:
    """Print the variation of values among programs.

    With an `axis` of the grid, among programs that differ along it alone.

    It follows each operation as a comment:

        %p = program_id {axis = 0} : i32          %p = program_id ... // %p: varying
    """
    for function in module:
        facts = uniformity(function, None if axis < 0 else axis)
        _print_values(function, {value: fact.value for value, fact in facts.items()})


@module_pass("print-liveness")
def print_liveness(module: Module) -> None:
    """Print the number of each operation, and the live range of each value.

    They follow each operation as a comment:

        %a = add %x, %x : i32                     %a = add %x, %x : i32 // 1; %a: 1-2
        return %a                                 return %a             // 2
    """
    for function in module:
        result = liveness(function)

        def number(op: Operation, name: Name, result: Liveness = result) -> list[str]:
            start, end = result.start(op), result.end(op)
            return [str(start) if start == end else f"{start} to {end}"]

        texts = {value: str(live_range) for value, live_range in result.ranges.items()}
        _print_values(function, texts, number)


@module_pass("print-call-graph")
def print_call_graph(module: Module) -> None:
    """Print the calls of each function, and the functions in an order with callees first.

    They are printed as comments, before the functions:

        kernel @k calls @f twice                  // @k calls @f (2 calls)
                                                  // bottom up: @f, @k
    """
    graph = CallGraph(module)
    for line in str(graph).splitlines():
        _say(f"// {line}")
    _say(f"// bottom up: {', '.join(map(str, graph.bottom_up()))}")


@module_pass("print-pointer-blocks")
def print_pointer_blocks(module: Module) -> None:
    """Print the block that each load and store of a kernel accesses, or why none is proven.

    It follows the operation as a comment, with the extents, stride and start of the block:

        %x = load %p, %m, %z : ...    %x = load ... // block of %a: %M x %K by %K at (64 * %i, %k)
    """
    for function in filter(lambda function: function.kernel, module):
        blocks = PointerBlocks(function)

        def note(op: Operation, name: Name, blocks: PointerBlocks = blocks) -> list[str]:
            if op.defn not in (memory.load, memory.store):
                return []
            try:
                return [_spell_block(blocks.of(op), blocks.forms, name)]
            except NoFormError as reason:
                return [f"no block: {reason}"]

        _print_values(function, {}, note)


def _spell_block(block: PointerBlock, forms: IndexForms, name: Name) -> str:
    extents = " x ".join(
        "any" if axis.extent == UNBOUNDED else _spell_number(axis.extent, forms, name)
        for axis in block.axes
    )
    strides = ", ".join(_spell_number(axis.stride, forms, name) for axis in block.axes[:-1])
    starts = ", ".join(_spell_number(axis.start, forms, name) for axis in block.axes)
    kind = "transposed block" if block.transposed else "block"
    return f"{kind} of {name(block.base)}: {extents} by {strides} at ({starts})"


def _spell_number(number: Polynomial, forms: IndexForms, name: Name) -> str:
    """Return the text of a polynomial without indices."""

    def spell_atom(atom: object) -> str:
        if isinstance(atom, Remainder):
            parts = (_spell_number(part, forms, name) for part in (atom.dividend, atom.divisor))
            return "({} % {})".format(*parts)
        assert isinstance(atom, Value)
        return name(atom)

    terms = []
    for monomial, coefficient in number.terms:
        parts = [spell_atom(forms.atoms[atom]) for atom in monomial]
        shown = [str(coefficient)] if coefficient != 1 or not parts else []
        terms.append(" * ".join([*shown, *parts]))
    return " + ".join(terms) or "0"


def _spell(fact: PointsTo, names: list[str]) -> str:
    parameters = [names[index] for index in sorted(fact.parameters)]
    return ", ".join([*parameters, *(["unknown"] if fact.unknown else [])])


def _print_values(
    function: Function,
    texts: Mapping[Value, str],
    more: Callable[[Operation, Name], Iterable[str]] = lambda op, name: (),
) -> None:
    """Print a function with texts for the values that each operation defines."""

    def note(op: Operation | None, name: Name) -> str:
        values = function.args if op is None else _defined(op)
        parts = [f"{name(value)}: {texts[value]}" for value in values if value in texts]
        return "; ".join([*(() if op is None else more(op, name)), *parts])

    _say(print_function(function, note=note).rstrip("\n"))


def _defined(op: Operation) -> list[Value]:
    """Return the results and the arguments of the first region.

    Those of a second region have the same names.
    """
    arguments = op.regions[0].args if op.regions else []
    return [*op.results, *arguments]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
