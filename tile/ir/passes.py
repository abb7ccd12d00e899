"""Passes and pipelines: declared by a decorator, named in text, run by the `PassManager`.

    @module_pass("unroll")
    def unroll(module: Module, *, limit: int = 4096) -> None:
        '''IR before and after.'''

    run_pipeline(module, "canonicalize,unroll{limit=8},dce")

Keyword arguments of the function are the options of the pass. `before` and `after` name the level
that it expects and the one it leaves, so a wrong order fails by a check; a pass that works on any
level has none for both. An option's type may have a class method `parse`, which reads its text.
"""

from __future__ import annotations

import inspect
import re
import sys
import time
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tile.config import config
from tile.errors import PassError, TileError
from tile.ir.core import Module
from tile.ir.levels import Level
from tile.ir.printer import print_module
from tile.ir.verifier import verify


@dataclass(frozen=True, eq=False)
class PassDef:
    """A declared pass."""

    name: str
    run: Callable[..., None]
    before: Level | None  # any, for None
    after: Level | None  # the one before, for None
    options: dict[str, inspect.Parameter]

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.run) or ""


@dataclass(frozen=True)
class Pass:
    """A pass with its options chosen; what a pipeline is made of."""

    defn: PassDef
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{k}={spell(v)}" for k, v in self.options.items())
        return f"{self.defn.name}{{{options}}}" if options else self.defn.name


class PassTable:
    """The declared passes by name."""

    def __init__(self) -> None:
        self._defns: dict[str, PassDef] = {}

    def add(self, defn: PassDef) -> None:
        assert defn.name not in self._defns, f"pass {defn.name} is declared twice"
        self._defns[defn.name] = defn

    def __getitem__(self, name: str) -> PassDef:
        if name not in self._defns:
            raise PassError(
                f"no pass is named `{name}`; there are {', '.join(sorted(self._defns))}"
            )
        return self._defns[name]

    def __iter__(self) -> Iterator[PassDef]:
        return iter(self._defns.values())


PASSES = PassTable()


def module_pass(
    name: str, *, before: Level | None = Level.TILE, after: Level | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Declare a pass. The function stays callable as it is."""

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
    """Read `pass,pass{option=value,...}`. Raises `PassError` for what does not exist."""
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
            known = ", ".join(defn.options) or "none"
            raise PassError(f"pass `{defn.name}` has no option `{name}`; it has {known}")
        kind = defn.options[name].annotation
        try:
            yield name, _WORDS[value] if kind is bool else getattr(kind, "parse", kind)(value)
        except (KeyError, ValueError) as error:
            raise PassError(
                f"option `{name}` of pass `{defn.name}` takes {kind.__name__}, not `{value}`"
            ) from error


def spell(value: Any) -> str:
    """The value of an option as pipelines in text have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class PassManager:
    """Runs passes over a module.

    It checks levels, verifies, prints, dumps and times, and on a failure says how to reproduce it.
    """

    def __init__(self, passes: Iterable[Pass], *, verify_each: bool | None = None) -> None:
        self.passes = list(passes)
        self.verify_each = config.verify if verify_each is None else verify_each
        self.timings: list[tuple[str, float]] = []

    def run(self, module: Module, level: Level = Level.TILE) -> Level:
        """Run all passes in place; the level that the module has then."""
        for index, item in enumerate(self.passes):
            if item.defn.before not in (None, level):
                assert item.defn.before is not None
                raise PassError(
                    f"pass `{item}` works on the {item.defn.before.value} level, "
                    f"and the module is at the {level.value} level"
                )
            self.step(module, index, item)
            level = item.defn.after or level
            if self.verify_each:
                self.guard(index, item, None, partial(verify, module, level))
            self.show(module, index, item)
        if config.timings:
            _print_timings(self.timings)
        return level

    def step(self, module: Module, index: int, item: Pass) -> None:
        before = print_module(module, locations=True) if self.verify_each or config.dump else None
        start = time.perf_counter()
        self.guard(index, item, before, lambda: item.defn.run(module, **item.options))
        self.timings.append((str(item), time.perf_counter() - start))

    def guard(self, index: int, item: Pass, before: str | None, work: Callable[[], None]) -> None:
        """Do `work`; where it fails, add which pass failed and how to run it again."""
        try:
            work()
        except TileError as error:
            error.notes.append(f"in pass `{item}`")
            rest = ",".join(map(str, self.passes[index:]))
            if before is not None and config.dump:
                path = Path(config.dump) / "reproducer.tile"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"// RUN: tile opt %s -p {rest}\n{before}")
                error.notes.append(f"to reproduce: tile opt {path} -p '{rest}'")
            else:
                error.notes.append("set TILE_DUMP=folder for a file that reproduces this")
            raise

    def show(self, module: Module, index: int, item: Pass) -> None:
        if item.defn.name in config.print_after or "all" in config.print_after:
            sys.stderr.write(f"// after {item}\n{print_module(module)}\n")
        if config.dump:
            path = Path(config.dump) / f"{index:02}-{item.defn.name}.tile"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(print_module(module, locations=True))


def run_pipeline(
    module: Module, pipeline: str | Iterable[Pass], level: Level = Level.TILE
) -> Level:
    """Run a pipeline, given as text or as passes, over a module in place."""
    passes = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    return PassManager(passes).run(module, level)


def _print_timings(timings: list[tuple[str, float]]) -> None:
    for name, seconds in timings:
        sys.stderr.write(f"{seconds * 1e3:9.3f} ms  {name}\n")
