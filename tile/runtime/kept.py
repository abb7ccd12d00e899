"""Compiled kernels on disk: which entry is whose, and artifacts as entries.

An entry's key is a text of all that decides what is compiled: the function with all that it calls
and captures, types and constants of its parameters, target and options, the settings in force, and
the versions of what compiles. Where some of that cannot be told exactly (a function captures an
object of a class of which nothing is known), or where the backend cannot keep what it makes, there
is no key and nothing is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tile import store
from tile.backends.base import Artifact, Backend, Options, Target
from tile.config import config
from tile.frontend.fingerprint import exact_digest
from tile.frontend.source import DeviceFunction
from tile.runtime.specialise import Constant, Leaf

_PACKAGE = Path(__file__).parents[1]


def key(
    function: DeviceFunction,
    leaves: Mapping[str, Leaf],
    backend: Backend,
    target: Target,
    options: Options,
) -> str | None:
    """The key of a compiled kernel, or None where it is not to be kept or looked up.

    That is also while somebody watches the compiler at work (TILE_DUMP and the like).
    """
    if store.current() is None or config.watching:
        return None
    identity = backend.identity(target)
    compiler = _compiler()
    if identity is None or not compiler:
        return None
    digest = exact_digest(function, {name: _plain(leaf) for name, leaf in leaves.items()})
    if digest is None:
        return None
    return "\n".join(
        ["kernel", compiler, config.deciding, identity, str(target), repr(options), digest]
    )


def _plain(leaf: Leaf) -> object:
    """A leaf as something that `exact_digest` can spell."""
    if isinstance(leaf, Constant):
        return ("constant", leaf.value)
    if isinstance(leaf, tuple):
        return ("tuple", type(leaf), *map(_plain, leaf))
    return str(leaf)


@functools.cache
def _compiler() -> str:
    """What compiles: the files of this package, Python, and NumPy, whose meaning folding has.

    Of a file it is size and time, which change with it. So developers need not clear anything, and
    a kernel that another installation compiled is not taken for one of this. Nothing where the
    files cannot be seen, as in an archive.
    """
    try:
        modules = sorted(_modules(str(_PACKAGE)))
    except OSError:
        return ""
    return "\n".join([sys.version, np.__version__, ml_dtypes.__version__, *modules])


def _modules(folder: str) -> Iterator[str]:
    """The Python files in a folder and those below it, as they are now."""
    with os.scandir(folder) as found:
        for file in found:
            if file.name.endswith(".py"):
                yield _stamp(file.path, file.stat())
            elif file.name != "__pycache__" and file.is_dir():
                yield from _modules(file.path)


def _stamp(path: str, found: os.stat_result) -> str:
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _as_it_is(path: Path) -> str:
    """A file as it is now; nothing for one that is not there."""
    try:
        return _stamp(str(path), path.stat())
    except OSError:
        return ""


# -- artifacts as entries


def find(name: str) -> Artifact | None:
    """The artifact under a key, if there is one that was made from files as they are now."""
    kept = store.current()
    entry = None if kept is None else kept.get(name)
    if entry is None:
        return None
    facts = entry.facts
    if any(_as_it_is(Path(path)) != stamp for path, stamp in facts["inputs"].items()):
        return None
    return Artifact(
        kernel=facts["kernel"],
        target=Target(*facts["target"]),
        options=Options(**facts["options"]),
        stages={
            stage: entry.parts[stage].decode() if is_text else entry.parts[stage]
            for stage, is_text in facts["stages"].items()
        },
        parameters=tuple(facts["parameters"]),
        written=frozenset(facts["written"]),
        facts=facts["facts"],
        inputs=tuple(map(Path, facts["inputs"])),
    )


def keep(name: str, artifact: Artifact) -> None:
    """Keep an artifact under a key."""
    kept = store.current()
    if kept is None:
        return
    facts: dict[str, Any] = {
        "kernel": artifact.kernel,
        "target": [artifact.target.backend, artifact.target.arch],
        "options": dataclasses.asdict(artifact.options),
        "stages": {stage: isinstance(text, str) for stage, text in artifact.stages.items()},
        "parameters": artifact.parameters,
        "written": sorted(artifact.written),
        "facts": dict(artifact.facts),
        "inputs": {str(path): _as_it_is(path) for path in artifact.inputs},
    }
    parts = {
        stage: text.encode() if isinstance(text, str) else text
        for stage, text in artifact.stages.items()
    }
    kept.put(name, store.Entry(f"{artifact.kernel} for {artifact.target}", facts, parts))
