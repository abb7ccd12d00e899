"""Signatures of Triton's functions from 3.6 to 3.9: each call that they take is taken here.

`signatures.json` has the parameters of each function by module, `|` between versions that differ:
`?` marks those with a default, `*` begins those by keyword.
"""

import importlib
import inspect
import json
from pathlib import Path

import pytest

from tile.compat.surface import State, surface
from tile.language.base.builtin import MEMBERS

FILE = Path(__file__).parent / "signatures.json"
SIGNATURES = json.loads(FILE.read_text(encoding="utf-8"))
METHODS = "triton.language.tensor"
PROVIDED = ("_semantic", "_builder", "_generator")  # by the compiler
Parameter = inspect.Parameter


def lacking(wanted: str, function) -> list[str]:
    """Return the reasons why calls by the signature `wanted` do not fit a function."""
    own = [p for p in inspect.signature(function).parameters.values() if p.name not in PROVIDED]
    by_position = [p.name for p in own if p.kind <= Parameter.POSITIONAL_OR_KEYWORD]
    by_keyword = [p.name for p in own if p.kind is not Parameter.POSITIONAL_ONLY]
    kinds = {p.kind for p in own}
    positional, _, keyword = wanted.partition("*")
    reasons = []
    for index, word in enumerate(positional.split()):
        name = word.rstrip("?")
        if by_position[index : index + 1] != [name] and Parameter.VAR_POSITIONAL not in kinds:
            reasons.append(f"parameter {index} is not {name}")
    for word in (positional + keyword).split():
        name = word.rstrip("?")
        if name not in by_keyword and Parameter.VAR_KEYWORD not in kinds:
            reasons.append(f"no {name}")
    optional = {word.rstrip("?") for word in wanted.split() if word.endswith("?")}
    required = {p.name for p in own if p.default is p.empty and p.kind <= p.KEYWORD_ONLY}
    required -= {p.name for p in own if p.kind is Parameter.VAR_POSITIONAL}
    named = {word.strip("*?") for word in wanted.split()}
    reasons += [f"{name} is required" for name in sorted(required & optional | required - named)]
    return reasons


def function_of(module: str, name: str):
    """Return a function; for methods of tensors, one without the tensor."""
    if module == METHODS:
        function = MEMBERS[name]
        parameters = list(inspect.signature(function).parameters.values())[1:]
        method = lambda: None  # noqa: E731
        method.__signature__ = inspect.Signature(parameters)
        return method
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("module", SIGNATURES)
def test_calls_for_triton_fit(triton, module: str) -> None:
    problems = {}
    excepted = {(e.module, e.name) for e in surface() if e.state is not State.PRESENT}
    for name, versions in SIGNATURES[module].items():
        if (module, name.partition(".")[0]) in excepted:
            continue
        for wanted in versions.split(" | "):
            reasons = lacking(wanted, function_of(module, name))
            if reasons:
                problems[f"{name}({wanted})"] = reasons
    assert not problems


def test_a_lacking_parameter_is_found() -> None:
    assert lacking("x", lambda x: x) == lacking("x y?", lambda x, *, y=0, z=1: x)[:0]
    assert lacking("x y?", lambda x, *, y=0: x) == ["parameter 1 is not y"]
    assert lacking("x * y?", lambda x: x) == ["no y"]
    assert lacking("x?", lambda x: x) == ["x is required"]
    assert lacking("x", lambda x, y: x) == ["y is required"]
