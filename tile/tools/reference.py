"""`tile reference`: pages on the language, the IR and its passes, made from their declarations.

So are the stubs of the language, which type checkers and editors read.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import tile.language as tl
import tile.language.math as language_math
import tile.language.random as language_random
from tile.ir.levels import EVERY, Level
from tile.ir.opdef import OPS, OpDef
from tile.ir.passes import PASSES, PassDef, spell
from tile.ir.printer import print_value
from tile.language.builtin import DESCRIPTOR_MEMBERS, Builtin
from tile.simt import ops as simt
from tile.simt.pipeline import LOWER
from tile.tools.command import Command
from tile.tools.stub import module_stub_page, stub_page
from tile.transforms.pipeline import TILE

DESCRIPTION = """\
Print a reference page as Markdown, made from the declarations themselves.

  tile reference language > docs/language.md    the functions of tl.*
  tile reference ir > docs/ir.md                the operations of the IR
  tile reference passes > docs/passes.md        the passes, with IR before and after
  tile reference stub > tile/language/__init__.pyi        types of tl.*, for editors
  tile reference math-stub > tile/language/_math.pyi      and of tl.math
  tile reference random-stub > tile/language/_random.pyi  and of tl.random
"""

LANGUAGE_HEAD = """\
# The language

Made by `tile reference language` from the docstrings of `tile/language/`. All of it is called
inside a `@tile.jit` function, after `import tile.language as tl`. A *tile* is a block of elements
whose extents are powers of two and known when the kernel is compiled; most functions take tiles,
scalars and Python numbers alike, broadcast them as NumPy does, and promote their types as Triton
does.

## Statements

Expressions with all of Python's operators, chained comparisons, `and`, `or`, `not` and conditional
expressions; assignments (augmented, annotated, of tuples); `if`, `for` over `range`, `tl.range` and
`tl.static_range`, `while`, `break`, `continue`, `return` anywhere, `assert`, `pass`; calls of other
`@tile.jit` functions, which may return tuples and take keywords and defaults.

- A parameter annotated `tl.constexpr` is known when the kernel is compiled: tile extents must be.
  So is a name assigned as `x: tl.constexpr = ...`. An `if` on it compiles one branch alone.
- Of other parameters of a kernel, an annotation such as `n: tl.int64`, `f: "fp16"`, `p: "*fp32"`,
  `x: float` (fp32) or `b: bool` is the type, whatever number is passed; one out of its range is
  an error. `p: tl.const` is a pointer that the kernel only reads through. Other annotations say
  nothing: a Python integer is `int32`, or the first of `int64` and `uint64` that holds it, a float
  of Python or NumPy `float32`, an integer of NumPy what NumPy says, and an array a pointer.
- A name that is assigned in a loop or in a branch keeps its type and shape.
- Globals are seen if they are `tl.constexpr(...)` objects, functions, modules or types.
- `/` of integers gives a float. `//` and `%` truncate towards zero, as C does: `-7 // 2` is -3 and
  `-7 % 2` is -1. Between compile-time numbers they are Python's own. `>>` of a signed integer keeps
  its sign, also where an unsigned one says by how much.
- A *descriptor*, made by `tl.make_tensor_descriptor` or passed as a `tile.TensorDescriptor`, is an
  array with bounds. It is read and written in boxes and computes nothing by itself; it may be
  assigned, carried by loops, passed to functions and returned.
- Integers wrap at their width, and values are exact in that. It is an error, though, if signed
  arithmetic wraps on its way to an address or to the mask of an access: how many neighbours are
  accessed at once is decided as if it did not. Offsets beyond 2**31 take `int64`.
- `(start + tl.arange(0, N)) % n` has neighbours in a row where `start` cannot be negative, such as
  a multiple of `tl.program_id(0)`, and `n` is a multiple of 16; of other numbers `tl.assume` says
  so: `tl.assume(start >= 0)`.
- A literal assigned to a name is an `int32` or `float32`.
- `breakpoint()` opens the debugger where the interpreter runs the kernel (see debugging.md); GPU
  backends pass it over, with a warning.

## Editors and type checkers

The package has type stubs: mypy and pyright check kernels, and editors complete members and show
signatures. `tl.tensor`, `tl.tensor_descriptor` and the element types annotate parameters; one
annotated with `tl.constexpr` or an element type accepts any argument. Checkers apply Python's own
rules to Python's own objects, which differ from the compiler's in two cases:

- The variable of a loop over `range` is an `int` to them. Over `tl.range` it is a tensor, with
  methods: `i.to(tl.int64)`.
- A name that starts as a Python number has no methods. Start with a tensor where one is needed:
  `tl.zeros((), tl.float32)`, `tl.to_tensor(0.0)`.
"""

IR_HEAD = """\
# The IR's operations

Made by `tile reference ir` from the declarations in `tile/ir/ops/`, and, for the levels that have
layouts, shared memory and threads, in `tile/simt/ops/`. An operand in brackets may be
absent, an attribute with a value has that default, and an example's operands stand before the bar.
The text format is described at the top of `tile/ir/printer.py`.
"""

PASSES_HEAD = """\
# The passes

Made by `tile reference passes` from the docstrings of the passes. Most show IR before on the left
and after on the right. `tile opt FILE -p PASS` runs one alone, and `TILE_PRINT_AFTER=PASS` shows
the IR behind it while a kernel is compiled.
"""


def language_page() -> Iterator[str]:
    """The lines of the page on `tl.*`."""
    yield LANGUAGE_HEAD
    functions = [f for name in tl.__all__ if isinstance(f := getattr(tl, name), Builtin)]
    functions.sort(key=lambda f: (f.__module__, f.name))
    for module, family in groupby(functions, key=lambda f: f.__module__):
        yield f"## {module.rpartition('.')[2]}\n"
        for function in family:
            yield f"### `tl.{function.name}({_parameters(function)})`\n"
            yield f"{inspect.getdoc(function)}\n"
    yield "## methods of descriptors\n"
    for name, function in sorted(DESCRIPTOR_MEMBERS.items()):
        if function not in functions:
            yield f"### `desc.{name}({_parameters(function, skip=1)})`\n"
            yield f"{inspect.getdoc(function)}\n"


def _parameters(function: Builtin[..., Any], skip: int = 0) -> str:
    parameters = list(function.__signature__.parameters.values())[skip:]
    return ", ".join(map(_parameter, parameters))


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    if parameter.default is inspect.Parameter.empty:
        return star + parameter.name
    return f"{parameter.name}={parameter.default!r}"


def ir_page() -> Iterator[str]:
    """The lines of the page on operations."""
    yield IR_HEAD
    lowered = simt.__name__
    defns_in_order = sorted(OPS, key=lambda defn: defn.rule.__module__.startswith(lowered))
    for module, defns in groupby(defns_in_order, key=lambda defn: defn.rule.__module__):
        level = "simt: " if module.startswith(lowered) else ""
        yield f"## {level}{module.rpartition('.')[2]}\n"
        for defn in defns:
            yield f"### `{defn.name}`\n"
            yield f"{defn.doc}\n"
            facts = [f"`{signature(defn)}`", *properties(defn)]
            yield "\n".join(f"- {fact}" for fact in facts) + "\n"
            if defn.examples:
                yield "```text\n" + "\n\n".join(defn.examples) + "\n```\n"


def signature(defn: OpDef) -> str:
    """Operands, attributes and regions of an operation in one line."""
    operands = [f"[{name}]" if name in defn.optional else name for name in defn.operands]
    if defn.variadic:
        operands.append(f"*{defn.variadic}")
    attributes = [
        name if spec.required else f"{name} = {print_value(spec.default)}"
        for name, spec in defn.attributes.items()
    ]
    text = f"{defn.name}({', '.join(operands)})"
    if attributes:
        text += f" {{{', '.join(attributes)}}}"
    if defn.regions:
        text += f" with regions {', '.join(defn.regions)}"
    return text


def properties(defn: OpDef) -> Iterator[str]:
    """What else a reader may want to know of an operation."""
    if defn.levels != EVERY:
        yield "levels: " + ", ".join(level.value for level in Level if level in defn.levels)
    if defn.accepts:
        yield "elements: " + ", ".join(ty.name for ty in defn.accepts)
    if defn.effect:
        yield "effect: " + ", ".join(flag.name.lower() for flag in defn.effect if flag.name)
    if defn.ulp:
        over = f" over {defn.domain[0]:g} to {defn.domain[1]:g}" if defn.domain else ""
        yield f"accuracy: {defn.ulp:g} ulp{over}"
    if defn.commutative:
        yield "commutative"


def passes_page() -> Iterator[str]:
    """The lines of the page on passes: those of a backend's pipelines in order, then the others."""
    yield PASSES_HEAD
    tile = [item.defn for item in TILE]
    sections = {
        "On tiles": list(dict.fromkeys(tile)),
        "From tiles to threads": [PASSES[name] for name in LOWER],
    }
    used = {defn for defns in sections.values() for defn in defns}
    sections["From tiles to threads"] = [
        defn for defn in sections["From tiles to threads"] if defn not in tile
    ]
    sections["By request"] = sorted((d for d in PASSES if d not in used), key=lambda d: d.name)
    for title, defns in sections.items():
        yield f"## {title}\n"
        for defn in defns:
            yield f"### `{defn.name}`\n"
            yield f"{defn.doc}\n"
            facts = [f"level: {_levels(defn)}"]
            if defn.options:
                options = (f"`{n} = {spell(p.default)}`" for n, p in defn.options.items())
                facts.append("options: " + ", ".join(options))
            yield "\n".join(f"- {fact}" for fact in facts) + "\n"


def _levels(defn: PassDef) -> str:
    if defn.before is None:
        return "any"
    after = "" if defn.after is defn.before else f" to {defn.after.value}" if defn.after else ""
    return defn.before.value + after


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "language": language_page,
    "ir": ir_page,
    "passes": passes_page,
    "stub": stub_page,
    "math-stub": partial(module_stub_page, language_math),
    "random-stub": partial(module_stub_page, language_random),
}


def page(name: str) -> str:
    """A whole page as Markdown."""
    return "\n".join(PAGES[name]()).rstrip("\n") + "\n"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("page", choices=PAGES, help="which page")


def _run(options: argparse.Namespace) -> int:
    print(page(options.page), end="")
    return 0


COMMAND = Command(
    "reference",
    "print the reference of the language, the IR or the passes",
    DESCRIPTION,
    _configure,
    _run,
)
