"""`tile reference`: the operations of the IR as a page, made from their declarations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import groupby

from tile.ir.opdef import OPS, OpDef
from tile.ir.printer import print_value

SUMMARY = "print the reference page of the IR's operations"

HEAD = """# The IR's operations

Made by `tile reference` from the declarations in `tile/ir/ops/`. An operand in brackets may be absent, an
attribute with a value has that default, and an example's operands stand before the bar. The text format is
described in `tile/ir/printer.py`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments: it has none."""


def run(arguments: argparse.Namespace) -> int:
    """Print the page."""
    print(page(), end="")
    return 0


def page() -> str:
    """The whole page as Markdown."""
    lines = [HEAD]
    for family, defns in groupby(OPS, key=lambda defn: defn.family):
        lines.append(f"## {family}\n")
        for defn in defns:
            lines.extend(entry(defn))
    return "\n".join(lines)


def entry(defn: OpDef) -> Iterator[str]:
    """One operation."""
    yield f"### `{defn.name}`\n"
    yield f"{defn.doc}\n"
    facts = [f"`{signature(defn)}`", *properties(defn)]
    yield "\n".join(f"- {fact}" for fact in facts) + "\n"
    if defn.examples:
        examples = "\n\n".join(
            example.replace(" | ", "   |   ", 1) if "\n" not in example else example
            for example in defn.examples
        )
        yield f"```text\n{examples}\n```\n"


def signature(defn: OpDef) -> str:
    """Operands, attributes and regions in one line."""
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
    """What a reader may want to know besides."""
    if defn.accepts:
        yield "elements: " + ", ".join(ty.name for ty in defn.accepts)
    if defn.effect:
        yield "effect: " + ", ".join(flag.name.lower() for flag in defn.effect if flag.name)
    if defn.ulp:
        over = f" over {defn.domain[0]:g} to {defn.domain[1]:g}" if defn.domain else ""
        yield f"accuracy: {defn.ulp:g} ulp{over}"
    if defn.commutative:
        yield "commutative"
