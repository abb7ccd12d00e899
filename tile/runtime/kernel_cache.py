"""The disk cache of compiled kernels: keys, and conversion between artifacts and cache entries.

A key is a text of everything that decides what is compiled: the function with its callees and
captured values, types and constants of its parameters, target and options, active settings, and the
versions of the compiler and its dependences. A kernel has no key, and is not cached, if part of
this has no exact text (a function captures an object of an unknown class), or if the backend cannot
serialize its result.
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

from tile.backends.base import Artifact, Backend, Options, Target
from tile.cache import CacheEntry, current_cache, digest
from tile.config import config
from tile.frontend.python.fingerprint import exact_digest
from tile.frontend.python.source import DeviceFunction
from tile.runtime.specialize import Constant, Leaf

_PACKAGE = Path(__file__).parents[1]
_SOURCES = (".py", ".cl", ".ll", ".lark")  # the endings of files that decide what is compiled


def key(
    function: DeviceFunction,
    leaves: Mapping[str, Leaf],
    backend: Backend,
    target: Target,
    options: Options,
) -> str | None:
    """Return the key of a compiled kernel, or None if the cache is not used for it.

    The cache is also not used while the output of passes is requested (TILE_DUMP and similar).
    """
    if current_cache() is None or config.observes_compiler:
        return None
    identity = backend.identity(target)
    compiler = compiler_identity()
    if identity is None or not compiler:
        return None
    fingerprint = exact_digest(function, {name: _plain(leaf) for name, leaf in leaves.items()})
    if fingerprint is None:
        return None
    return "\n".join(
        [
            "kernel",
            compiler,
            config.cache_key_settings,
            identity,
            str(target),
            repr(options),
            fingerprint,
        ]
    )


def _plain(leaf: Leaf) -> object:
    """Return a leaf as a value that `exact_digest` supports."""
    if isinstance(leaf, Constant):
        return ("constant", leaf.value)
    if isinstance(leaf, tuple):
        return ("tuple", type(leaf), *map(_plain, leaf))
    return str(leaf)


@functools.cache
def compiler_identity() -> str:
    """Return the version of the compiler: Python, NumPy (for constant folding) and this package.

    The package is identified by path, size and modification time of its files. So developers need
    not clear the cache, and installations do not share entries. It is a hash, as every kernel's key
    has it. Return an empty string if the files cannot be listed, as in an archive.
    """
    try:
        modules = sorted(_modules(str(_PACKAGE)))
    except OSError:
        return ""
    return digest("\n".join([sys.version, np.__version__, ml_dtypes.__version__, *modules]))


def _modules(folder: str) -> Iterator[str]:
    """Yield stamps of the source files in a folder and its subfolders."""
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(_SOURCES):
                yield _stamp(file.path, file.stat())
            elif file.name != "__pycache__" and file.is_dir():
                yield from _modules(file.path)


def _stamp(path: str, stat: os.stat_result) -> str:
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


def _current_stamp(path: Path) -> str:
    """Return the current stamp of a file; an empty string if it does not exist."""
    try:
        return _stamp(str(path), path.stat())
    except OSError:
        return ""


# -- artifacts as entries


def load_kernel(name: str) -> Artifact | None:
    """Return the artifact under a key, if there is one whose input files are unchanged."""
    cache = current_cache()
    entry = None if cache is None else cache.get(name)
    if entry is None:
        return None
    facts = entry.facts
    if any(_current_stamp(Path(path)) != stamp for path, stamp in facts["inputs"].items()):
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
        noalias=frozenset(facts["noalias"]),
        disjoint=frozenset((one, other) for one, other in facts["disjoint"]),
        launch_metadata=facts["launch_metadata"],
        inputs=tuple(map(Path, facts["inputs"])),
    )


def store_kernel(name: str, artifact: Artifact) -> None:
    """Store an artifact under a key."""
    cache = current_cache()
    if cache is None:
        return
    facts: dict[str, Any] = {
        "kernel": artifact.kernel,
        "target": [artifact.target.backend, artifact.target.arch],
        "options": dataclasses.asdict(artifact.options),
        "stages": {stage: isinstance(text, str) for stage, text in artifact.stages.items()},
        "parameters": artifact.parameters,
        "written": sorted(artifact.written),
        "noalias": sorted(artifact.noalias),
        "disjoint": sorted(artifact.disjoint),
        "launch_metadata": dict(artifact.launch_metadata),
        "inputs": {str(path): _current_stamp(path) for path in artifact.inputs},
    }
    parts = {
        stage: text.encode() if isinstance(text, str) else text
        for stage, text in artifact.stages.items()
    }
    cache.put(name, CacheEntry(f"{artifact.kernel} for {artifact.target}", facts, parts))
