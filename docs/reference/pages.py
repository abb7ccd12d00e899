"""The generated files: their names on the command line, their paths, and their lines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import tile.language as tl
import tile.language.math as language_math
import tile.language.random as language_random
from docs.reference.ops import ops_page, ops_stub_page
from docs.reference.stubs import (
    functions,
    functions_page,
    libdevice_stub_page,
    module_stub_page,
    stub_page,
    template,
)
from tile.compat.ignored_variables import ELSEWHERE, IGNORED, NEEDLESS, PROFILER
from tile.compat.knobs import EFFECTS
from tile.compat.reasons import ABSENT_MODULES
from tile.compat.surface import Entry, State, surface
from tile.ir.declare import OPS
from tile.ir.op_definition import ALL_LEVELS, Level, OpDef
from tile.ir.passes import PASSES, PassDef, spell
from tile.ir.printer import print_value
from tile.ir.semantics.libdevice import Symbol
from tile.ir.semantics.libdevice import functions as libdevice_functions
from tile.ir.types import ALL, FLOATS, SCALARS
from tile.language import core, standard
from tile.language.base.builtin import DESCRIPTOR_MEMBERS, Builtin
from tile.simt import ops as simt
from tile.simt.pass_pipeline import LOWER
from tile.transforms.expand_inline_asm.comparisons import COMPARISONS
from tile.transforms.expand_inline_asm.execution import RULES as PTX_RULES
from tile.transforms.pass_pipeline import INLINE_ASM, TILE

VERSIONS = ("3.6", "3.8", "3.9")  # of Triton, whose names the page compares
DIFFERENT, ABSENT = State.DIFFERENT, State.ABSENT
ROOT = Path(__file__).parents[2]


def language_page() -> Iterator[str]:
    """Yield the lines of the page on `tl.*`."""
    yield template("language.txt")
    yield inspect.cleandoc(tl.__doc__ or "").partition("\n\n")[2] + "\n"
    declared = sorted(functions().values(), key=lambda f: (f.__module__, f.name))
    for module, family in groupby(declared, key=lambda f: f.__module__):
        yield f"## {module.rpartition('.')[2]}\n"
        for function in family:
            yield f"### `tl.{function.name}({_parameters(function)})`\n"
            yield f"{inspect.getdoc(function)}\n"
    yield "## methods of descriptors\n"
    for name, function in sorted(DESCRIPTOR_MEMBERS.items()):
        if function not in declared:
            yield f"### `desc.{name}({_parameters(function, skip=1)})`\n"
            yield f"{inspect.getdoc(function)}\n"
    yield from _accuracy()


def _accuracy() -> Iterator[str]:
    """Yield the section with the errors that declarations of operations state."""
    yield "## accuracy\n"
    yield template("accuracy.txt")
    yield "| function | error | for operands in |"
    yield "| --- | --- | --- |"
    for defn in (d for d in OPS if d.elementwise and d.accepts and set(d.accepts) & set(FLOATS)):
        if defn.ulp:
            interval = f"{defn.domain[0]:g} to {defn.domain[1]:g}" if defn.domain else ""
            yield f"| {_spelling(defn)} | {defn.ulp:g} ulp | {interval} |"


_OPERATORS = {"div": "/", "rem": "%"}


def _spelling(defn: OpDef) -> str:
    """Return an operation as kernels write it."""
    if defn.name in _OPERATORS:
        return f"`x {_OPERATORS[defn.name]} y`"
    return f"`tl.{defn.name}`"


def _parameters(function: Builtin[..., Any], skip: int = 0) -> str:
    parameters = list(function.signature.parameters.values())[skip:]
    return ", ".join(map(_parameter, parameters))


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    if parameter.default is inspect.Parameter.empty:
        return star + parameter.name
    return f"{parameter.name}={parameter.default!r}"


def ir_page() -> Iterator[str]:
    """Yield the lines of the page on operations."""
    yield template("ir.txt")
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
    """Return the operands, attributes and regions of an operation in one line."""
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
    """Yield an operation's levels, element types, effects, accuracy, traits, commutativity."""
    if defn.levels != ALL_LEVELS:
        yield "levels: " + ", ".join(level.value for level in Level if level in defn.levels)
    if defn.accepts:
        types = SCALARS.values() if defn.accepts == ALL else defn.accepts
        yield "elements: " + ", ".join(ty.ir_name for ty in types)
    if defn.effect:
        yield "effect: " + ", ".join(flag.name.lower() for flag in defn.effect if flag.name)
    if defn.ulp:
        over = f" over {defn.domain[0]:g} to {defn.domain[1]:g}" if defn.domain else ""
        yield f"accuracy: {defn.ulp:g} ulp{over}"
    if defn.traits:
        yield "traits: " + ", ".join(sorted(defn.traits))
    if defn.commutative:
        yield "commutative"


def passes_page() -> Iterator[str]:
    """Yield the lines of the page on passes: the pipelines' passes in order, then the others."""
    yield template("passes.txt")
    tile = [INLINE_ASM, *(item.defn for item in TILE)]
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


def compat_page() -> Iterator[str]:
    """Yield the lines of the page on programs written for Triton."""
    yield template("compat.txt")
    entries = list(surface())
    yield "| module | 3.6 | 3.8 | 3.9 | different | absent |"
    yield "| --- | --- | --- | --- | --- | --- |"
    by_module = {m: list(group) for m, group in groupby(entries, key=lambda e: e.module)}
    for module, group in by_module.items():
        states = [sum(e.state is state for e in group) for state in (DIFFERENT, ABSENT)]
        counts = [_offered(group, version) for version in VERSIONS]
        yield f"| `{module}` | {' | '.join([*counts, *map(str, states)])} |"
    yield "\n## Different\n"
    different = {e.name: e.remark for e in entries if e.state is DIFFERENT}
    yield from (f"- `{name}`: {remark}." for name, remark in different.items())
    yield "\n## Absent names\n"
    absent = [e for e in entries if e.state is ABSENT]
    for module, reason in dict.fromkeys((e.module, e.remark) for e in absent):
        names = ", ".join(_versioned(e) for e in absent if (e.module, e.remark) == (module, reason))
        yield f"- `{module}`: {names}. {reason[0].upper()}{reason[1:]}."
    yield "\n## Absent modules\n"
    yield from (f"- `{name}`: {reason}." for name, reason in ABSENT_MODULES.items())
    yield "\n## Environment variables\n"
    yield from (f"- `{name}`: {effect}." for name, effect in EFFECTS.items())
    yield "\nThese have no effect, and a warning says so where one is set:\n"
    yield from _by_reason(IGNORED)
    yield "\nThese have no effect either, and ask for nothing:\n"
    yield from _by_reason(NEEDLESS)
    yield from _by_reason(dict.fromkeys(PROFILER, "the profiler Proton is part of Triton"))
    yield f"- `{'...`, `'.join(ELSEWHERE)}...`: `tile` has no backend for AMD's devices."


def _by_reason(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each reason, with the names that it is given for."""
    for reason in dict.fromkeys(reasons.values()):
        names = ", ".join(f"`{name}`" for name in reasons if reasons[name] == reason)
        yield f"- {names}: {reason}."


def _offered(entries: list[Entry], version: str) -> str:
    """Return how many names of a version a module has, of how many."""
    of = [entry for entry in entries if version in entry.versions]
    return f"{sum(entry.state is not ABSENT for entry in of)} of {len(of)}"


def _versioned(entry: Entry) -> str:
    """Return a name, with its versions unless all have it."""
    all_ = entry.versions.split() == list(VERSIONS)
    return f"`{entry.name}`" + ("" if all_ else f" ({', '.join(entry.versions.split())})")


def libdevice_page() -> Iterator[str]:
    """Yield the lines of the page on libdevice: a row for each symbol."""
    yield template("libdevice.txt")
    yield "| function | types | error | for operands in | symbol |"
    yield "| --- | --- | --- | --- | --- |"
    for name, symbols in sorted(libdevice_functions().items()):
        for symbol in symbols:
            interval = f"{symbol.domain[0]:g} to {symbol.domain[1]:g}" if symbol.domain else ""
            if symbol.orders:
                interval += f", orders {symbol.orders[0]} to {symbol.orders[1]}"
            error = _error(symbol)
            yield f"| `{name}` | {symbol.signature} | {error} | {interval} | `{symbol.name}` |"


def inline_ptx_page() -> Iterator[str]:
    """Yield the lines of the page on inline PTX: a row for each rule of an instruction."""
    yield template("inline_ptx.txt")
    yield "| instruction | types | modifiers |"
    yield "| --- | --- | --- |"
    types: dict[tuple[str, str], list[str]] = {}
    for (base, name), rules in PTX_RULES.items():
        for rule in rules:
            modifiers = [_family(base, modifier) for modifier in rule.required]
            row = ".".join([base, *modifiers]), " ".join(sorted(rule.optional))
            types.setdefault(row, []).append(name)
    for (instruction, optional), names in sorted(types.items()):
        yield f"| `{instruction}` | {' '.join(dict.fromkeys(names))} | {optional} |"


def _family(base: str, modifier: str) -> str:
    """Return the page's name for all comparisons, and for the functions that combine them."""
    if base not in ("set", "setp"):
        return modifier
    return "CMP" if modifier in COMPARISONS else "BOOL"


def _error(symbol: Symbol) -> str:
    parts = [f"{symbol.ulp:.3g} ulp"] if symbol.ulp else []
    parts += [f"{symbol.absolute:.2g}"] if symbol.absolute else []
    return " + ".join(parts)


@dataclass(frozen=True)
class Page:
    """A generated file: its path in the source tree and the function that yields its lines."""

    path: str
    lines: Callable[[], Iterator[str]]


PAGES: dict[str, Page] = {
    "language": Page("docs/language.md", language_page),
    "ir": Page("docs/ir.md", ir_page),
    "passes": Page("docs/passes.md", passes_page),
    "ops": Page("docs/ops.md", ops_page),
    "compat": Page("docs/compat.md", compat_page),
    "functions": Page("tile/language/_functions.py", functions_page),
    "stub": Page("tile/language/__init__.pyi", stub_page),
    "math-stub": Page("tile/language/_math.pyi", partial(module_stub_page, language_math)),
    "core-stub": Page("tile/language/core.pyi", partial(module_stub_page, core)),
    "standard-stub": Page("tile/language/standard.pyi", partial(module_stub_page, standard)),
    "random-stub": Page("tile/language/_random.pyi", partial(module_stub_page, language_random)),
    "ops-stub": Page("tile/ops/__init__.pyi", ops_stub_page),
    "libdevice": Page("docs/libdevice.md", libdevice_page),
    "inline-ptx": Page("docs/inline_ptx.md", inline_ptx_page),
    "libdevice-stub": Page("tile/language/extra/libdevice.pyi", libdevice_stub_page),
}


def page(name: str) -> str:
    """Return a whole page."""
    return "\n".join(PAGES[name].lines()).rstrip("\n") + "\n"


def write_pages() -> None:
    """Write every page to its file."""
    for name, entry in PAGES.items():
        (ROOT / entry.path).write_text(page(name), "utf-8")
