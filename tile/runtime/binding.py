"""Bind a call's arguments to parameters, and separate the launch options from them."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from tile.backends.base import Options
from tile.brief import brief
from tile.errors import ArgumentTypeError
from tile.frontend.source import REQUIRED, Parameter

OPTIONS = Options.names()
OPTION_DEFAULTS: dict[str, Any] = dataclasses.asdict(Options())


class Binder:
    """Binds calls to the parameters of one kernel, like Python's calls of functions.

    Keyword arguments that are not parameters are options of the launch. A parameter with the name
    of an option (`num_warps: tl.constexpr`) receives the value, which also sets the option.
    """

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self.name = name
        self.parameters = parameters
        self.names = [p.name for p in parameters]
        self._defaults = [(p.name, p.default) for p in parameters]
        self._positional = sum(p.kind is not p.kind.KEYWORD_ONLY for p in parameters)
        self._both = [(i, p.name) for i, p in enumerate(parameters) if p.name in OPTIONS]

    def bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the values of all parameters in order, and the options.

        Raises one `ArgumentTypeError` that lists all problems.
        """
        if len(args) > self._positional:
            raise self._error(args, kwargs)
        values, rest = list(args), dict(kwargs)
        for name, default in self._defaults[len(args) :]:
            value = rest.pop(name, default)
            if value is REQUIRED:
                raise self._error(args, kwargs)
            values.append(value)
        if not OPTIONS.issuperset(rest):
            raise self._error(args, kwargs)
        for index, name in self._both:
            rest[name] = values[index]
        return values, rest

    def _error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentTypeError:
        names = self.names
        problems = []
        if len(args) > self._positional:
            problems.append(
                f"takes {self._positional} positional arguments, and {len(args)} were given"
            )
        twice = [name for name in names[: len(args)] if name in kwargs and name not in OPTIONS]
        if twice:
            problems.append(f"got {quoted(twice)} twice, by position and by name")
        missing = [
            p.name for p in self.parameters[len(args) :] if p.required and p.name not in kwargs
        ]
        if missing:
            problems.append(f"is missing {quoted(missing)}")
        unknown = [name for name in kwargs if name not in names and name not in OPTIONS]
        if unknown:
            problems.append(f"has no parameter {unknown_names(unknown, [*names, *OPTIONS])}")
        notes = [f"it is {spell_parameters(self.name, self.parameters)}"]
        if unknown:
            notes.append(f"options of a launch are {', '.join(sorted(OPTIONS))}")
        return ArgumentTypeError(f"{self.name}() {', '.join(problems)}", notes=notes)


def spell_parameters(name: str, parameters: Sequence[Parameter]) -> str:
    """Return the text of a kernel's signature, without types."""
    words = []
    for parameter in parameters:
        word = parameter.name + (": tl.constexpr" if parameter.is_constexpr else "")
        if not parameter.required:
            equals = " = " if parameter.is_constexpr else "="
            word += f"{equals}{brief(parameter.default)}"
        words.append(word)
    return f"{name}({', '.join(words)})"


def quoted(names: Sequence[str]) -> str:
    """Return `'a'`, `'a' and 'b'`, or `'a', 'b' and 'c'`; an empty string for no names."""
    words = [repr(name) for name in names]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def unknown_names(unknown: Sequence[str], candidates: Sequence[str]) -> str:
    """Return a list of unknown names, each with the closest candidate."""
    words = []
    for name in unknown:
        near = difflib.get_close_matches(name, candidates, n=1)
        words.append(f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name))
    return ", ".join(words)


def assignments(values: Mapping[str, Any]) -> str:
    """Return the text `a=1, b=2`."""
    return ", ".join(f"{name}={brief(value)}" for name, value in values.items())
