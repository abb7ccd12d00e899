"""Passes, pipelines and the pass manager.

    @module_pass("unroll")
    def unroll(module: Module, *, limit: int = 4096) -> None:
        '''IR before and after.'''

    run_pipeline(module, "canonicalize,unroll{limit=8},dce")

Keyword-only arguments of the function are the options of the pass. `before` and `after` are the IR
levels that it expects and produces; the pass manager checks them. A pass that works on any level
has None for both. An option's type may have a class method `parse` for its text.
"""

from __future__ import annotations

import inspect
import re
import shlex
import sys
import time
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tile.config import config
from tile.errors import ArgumentValueError, PassError, TileError
from tile.ir.compilation_context import ALL, Compilation, compiling
from tile.ir.linker import refuse_unresolved
from tile.ir.module import Module
from tile.ir.op_definition import Level, Table
from tile.ir.printer import print_module
from tile.ir.verifier import verify


@dataclass(frozen=True, eq=False)
class PassDef:
    """A declared pass."""

    name: str
    run: Callable[..., None]
    before: Level | None  # None: any level
    after: Level | None  # None: the level is unchanged
    options: dict[str, inspect.Parameter]

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.run) or ""


@dataclass(frozen=True)
class Pass:
    """A pass with its options; an element of a pipeline."""

    defn: PassDef
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{k}={spell(v)}" for k, v in self.options.items())
        return f"{self.defn.name}{{{options}}}" if options else self.defn.name


class PassTable(Table[PassDef]):
    """The declared passes by name."""

    def __getitem__(self, name: str) -> PassDef:
        if name not in self:
            names = ", ".join(sorted(defn.name for defn in self))
            raise PassError(f"no pass is named `{name}`; there are {names}")
        return super().__getitem__(name)


PASSES = PassTable("pass")


def module_pass(
    name: str, *, before: Level | None = Level.TILE, after: Level | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a pass. The function itself is returned unchanged."""

    def declare(run: Callable[..., None]) -> Callable[..., None]:
        hints = typing.get_type_hints(run)
        options = {
            p.name: p.replace(annotation=hints[p.name])
            for p in inspect.signature(run).parameters.values()
            if p.kind is p.KEYWORD_ONLY
        }
        PASSES.add(PassDef(name, run, before, after or before, options))
        return run

    return declare


_ITEM = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:\{([^}]*)\})?\s*(,|$)")
_WORDS = {"true": True, "false": False}


def parse_pipeline(text: str) -> list[Pass]:
    """Parse `pass,pass{option=value,...}`. Raises `PassError` for unknown passes and options."""
    passes = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise PassError(f"`{text[position:]}` is not of the form `pass,pass{{option=value}}`")
        defn = PASSES[match.group(1)]
        passes.append(Pass(defn, dict(_options(defn, match.group(2) or ""))))
        position = match.end()
    return passes


def _options(defn: PassDef, text: str) -> Iterator[tuple[str, Any]]:
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in defn.options:
            options = ", ".join(defn.options) or "none"
            raise PassError(f"pass `{defn.name}` has no option `{name}`; it has {options}")
        kind = defn.options[name].annotation
        if typing.get_args(kind):  # a type, or None where the option is not given
            kind = typing.get_args(kind)[0]
        try:
            yield name, _WORDS[value] if kind is bool else getattr(kind, "parse", kind)(value)
        except (KeyError, ValueError) as error:
            raise PassError(
                f"option `{name}` of pass `{defn.name}` takes {kind.__name__}, not `{value}`"
            ) from error


def spell(value: Any) -> str:
    """Return the text of an option's value, as in a textual pipeline."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class _Settings:
    """The settings of a run, read once, since it has some forty passes."""

    dump: str = field(default_factory=lambda: config.dump)
    reproducer: str = field(default_factory=lambda: config.reproducer)
    print_after: tuple[str, ...] = field(default_factory=lambda: config.print_after)
    print_kernel: str = field(default_factory=lambda: config.print_kernel)


class PassManager:
    """Runs passes over a module.

    It checks levels, verifies, prints, dumps and times; on failure it writes a reproducer.
    """

    def __init__(self, passes: Iterable[Pass], *, verify_each: bool | None = None) -> None:
        self.passes = list(passes)
        self.verify_each = config.verify if verify_each is None else verify_each
        self.timings: list[tuple[str, float]] = []
        self.compilation: Compilation
        self.settings: _Settings

    def run(self, module: Module, level: Level = Level.TILE) -> Level:
        """Run all passes in place and return the level of the module after them."""
        self.settings = _Settings()
        describe = partial(print_module, module, locations=True)
        with compiling(_name(module), describe) as self.compilation:
            if self.settings.dump and not self.compilation.is_dumped:
                self.dump(module, "input")
            for index, item in enumerate(self.passes):
                level = self.step(module, index, item, level)
        if config.timings:
            _print_timings(self.timings)
        return level

    def step(self, module: Module, index: int, item: Pass, level: Level) -> Level:
        """Run one pass, verify and print as configured, and return the level after it."""
        if item.defn.before not in (None, level):
            assert item.defn.before is not None
            raise PassError(
                f"pass `{item}` works on the {item.defn.before.value} level, "
                f"and the module is at the {level.value} level"
            )
        if item.defn.after not in (None, level):
            refuse_unresolved(module)
        settings = self.settings
        wanted = self.verify_each or settings.dump or settings.reproducer
        before = print_module(module, locations=True) if wanted else ""
        failing = partial(self.guard, index, item, level, before)
        start = time.perf_counter()
        failing(lambda: item.defn.run(module, **item.options))
        self.timings.append((str(item), time.perf_counter() - start))
        level = item.defn.after or level
        if self.verify_each:
            failing(partial(verify, module, level))
        self.show(module, item)
        return level

    def guard(
        self, index: int, item: Pass, level: Level, before: str, work: Callable[[], None]
    ) -> None:
        """Call `work`; if it fails, add the failing pass and how to reproduce it to the error."""
        try:
            work()
        except TileError as error:
            error.notes.append(f"in pass `{item}`")
            rest = ",".join(map(str, self.passes[index:]))
            if self.settings.dump or self.settings.reproducer:
                options = f"-p {shlex.quote(rest)}"
                if level is not Level.TILE:
                    options = f"--level {level.value} {options}"
                path = self.compilation.reproducer(f"// RUN: tile opt %s {options}\n{before}")
                command = f"tile opt {shlex.quote(str(path))} {options}"
                error.notes.append(f"to reproduce: {command}")
            else:
                error.notes.append("set TILE_DUMP=folder to write a reproducer")
            raise

    def show(self, module: Module, item: Pass) -> None:
        """Print and dump the IR after a pass, if configured."""
        name = item.defn.name
        self.compilation.passes[name] = None
        settings = self.settings
        wanted = name in settings.print_after or ALL in settings.print_after
        if wanted and settings.print_kernel in ("", self.compilation.kernel):
            self.compilation.tell(f"// after {item}\n{print_module(module)}\n")
        if settings.dump:
            self.dump(module, name)

    def dump(self, module: Module, name: str) -> None:
        """Write the next numbered dump file."""
        self.compilation.dump(name, print_module(module, locations=True))


def _name(module: Module) -> str:
    """Return the name for dumps of a module that is not part of a compilation."""
    return next((function.name for function in (*module.kernels, *module)), "module")


def refuse_unknown(names: Iterable[str]) -> None:
    """Raise `ArgumentValueError` for names in TILE_PRINT_AFTER that no declared pass has."""
    declared = {defn.name for defn in PASSES}
    unknown = [name for name in names if name not in declared and name != ALL]
    if unknown:
        raise ArgumentValueError(
            f"TILE_PRINT_AFTER: no pass is named `{unknown[0]}`; there are {ALL}, "
            f"{', '.join(sorted(declared))}"
        )


def run_pipeline(
    module: Module, pipeline: str | Iterable[Pass], level: Level = Level.TILE
) -> Level:
    """Run a pipeline (text or passes) on a module in place and return the resulting level."""
    passes = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    return PassManager(passes).run(module, level)


def _print_timings(timings: list[tuple[str, float]]) -> None:
    for name, seconds in timings:
        sys.stderr.write(f"{seconds * 1e3:9.3f} ms  {name}\n")
