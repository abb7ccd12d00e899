"""Tuning results on disk: one JSON file for each configuration that was measured.

    FOLDER/matmul-4f1c09d2a7b35e86/1d20b7.../9be3f0....json
           kernel, code and machine  key      configuration

The first folder stands for the text of the kernel and of the functions that it calls, the version
of this package, the device and its driver; the second for a tuning key. So lists of configurations
may grow and shrink without losing results, and processes and hosts share a folder: a file is
written aside and renamed, without locks, and of several writers of one result the last one stays.

Results hold only times and reasons. A file that is missing, damaged or of another kernel is not
used, and its configuration is measured again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import platform
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile import backends
from tile.backends.base import Target
from tile.backends.capabilities import DeviceNamed
from tile.cache import cache_folder
from tile.cache.disk_cache import read_regular_file, write_atomically
from tile.errors import BackendError
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.autotuning.configs import Config, innermost
from tile.runtime.target_selection import target_of
from tile.tracebacks import OnceWarner
from tile.version import VERSION

FORMAT = "tile tuning result 1"
_DIGITS = 24  # of digests in names


def default_folder() -> Path:
    """Return the folder of results if the user names none."""
    return cache_folder() / "autotune"


@dataclass(frozen=True)
class StoredResult:
    """The result of a configuration: times in ms, or the reason why it cannot run."""

    times: tuple[float, ...]
    reason: str = ""

    @classmethod
    def of(cls, content: object) -> StoredResult:
        """Return the result in a file's content. Raises `ValueError` for any other content."""
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"it is not of the format {FORMAT!r}")
        times, reason = content.get("times"), content.get("reason")
        if not isinstance(times, list) or not isinstance(reason, str) or not (times or reason):
            raise ValueError("it has neither times nor a reason")
        if not all(isinstance(t, int | float) and 0 <= t < math.inf for t in times):
            raise ValueError(f"its times are {times}")
        return cls(tuple(map(float, times)), reason)


class TuningStore:
    """The results of one kernel on one machine, in a folder that may be shared."""

    def __init__(self, folder: Path, kernel: Any, function: Callable[..., object]) -> None:
        """`kernel` is the tuned kernel, and `function` its Python function."""
        self.root = folder
        self.name = function.__name__
        self._code = _code_of(kernel, function)
        self._warner = OnceWarner()

    def folder(self, key: Sequence[Any], machine: str) -> Path:
        """Return the folder of the results for a tuning key on a machine."""
        identity = _digest("\0".join([self._code, VERSION, machine]))
        return self.root / f"{self.name}-{identity}" / _digest(repr(tuple(key)))

    def load(self, key: Sequence[Any], machine: str) -> dict[str, StoredResult]:
        """Return the results for a key, by the text of configurations."""
        self._check_folder()
        results: dict[str, StoredResult] = {}
        for path, content in self._contents(self.folder(key, machine)):
            try:
                results[str(content["config"])] = StoredResult.of(content)
            except (ValueError, KeyError, TypeError) as error:
                self._warner.warn(f"the tuning result {path} is ignored: {error}")
        if not results:
            self._tell_other_versions()
        return results

    def save(
        self,
        key: Sequence[Any],
        machine: str,
        config: Config,
        times: Sequence[float],
        reason: str = "",
    ) -> None:
        """Store the result of a configuration; warn once if the folder is not writable."""
        finite = [float(t) for t in times if math.isfinite(t)]
        content = {
            "format": FORMAT,
            "kernel": self.name,
            "version": VERSION,
            "machine": machine,
            "key": repr(tuple(key)),
            "config": str(config),
            "times": finite,
            "reason": reason or ("" if finite else "it has no finite time"),
        }
        path = self.folder(key, machine) / f"{_digest(str(config))}.json"
        try:
            write_atomically(path, json.dumps(content, indent=1).encode())
        except OSError as error:
            self._warner.warn(f"the tuning results of {self.name} are not saved: {error}")

    def fastest(self, key: Sequence[Any], machine: str) -> list[str]:
        """Return the best configuration of every other key on a machine, as texts."""
        own = self.folder(key, machine)
        best: list[str] = []
        folders = own.parent.iterdir() if own.parent.is_dir() else ()
        for folder in sorted(folders):
            times: dict[str, float] = {}
            for _, content in self._contents(folder) if folder != own else ():
                try:
                    times[str(content["config"])] = StoredResult.of(content).times[0]
                except (ValueError, KeyError, TypeError, IndexError):
                    continue
            if times:
                best.append(min(times, key=lambda config: times[config]))
        return list(dict.fromkeys(best))

    def _contents(self, folder: Path) -> Iterator[tuple[Path, Any]]:
        """Yield the path and content of every file of a folder that is JSON."""
        try:
            paths = sorted(folder.glob("*.json"))
        except OSError:
            return
        for path in paths:
            try:
                yield path, json.loads(read_regular_file(path))
            except (OSError, ValueError) as error:
                self._warner.warn(f"the tuning result {path} is ignored: {error}")

    def _check_folder(self) -> None:
        try:
            mode = self.root.stat().st_mode
        except OSError:
            return
        if mode & stat.S_IWOTH:
            self._warner.warn(
                f"every user can write to {self.root} (mode {stat.S_IMODE(mode):04o}), and so "
                f"choose among the configurations of {self.name}; chmod o-w prevents that"
            )

    def _tell_other_versions(self) -> None:
        """Warn once if all results of kernels of this name are of other versions."""
        folders = self.root.glob(f"{self.name}-*")
        firsts = (next(self._contents_below(folder), {}) for folder in folders)
        versions = {str(content.get("version")) for content in firsts if content}
        if versions and VERSION not in versions:
            self._warner.warn(
                f"{self.root} has tuning results of {self.name} from version "
                f"{', '.join(sorted(versions))} of tile, which stay there; version {VERSION} "
                "measures anew, and keeps results of its own"
            )

    def _contents_below(self, folder: Path) -> Iterator[Mapping[str, Any]]:
        """Yield the results in the folder of a kernel."""
        for key in folder.iterdir() if folder.is_dir() else ():
            for _, content in self._contents(key):
                if isinstance(content, dict):
                    yield content


def launch_target(kernel: Any, named: Mapping[str, Any]) -> Target:
    """Return the target of a launch of a kernel with arguments by name.

    The blocks of descriptors need not be valid yet: hooks of configurations may set them.
    """
    function = innermost(kernel)
    names = [parameter.name for parameter in function.parameters if not parameter.is_constexpr]
    values = {name: named[name] for name in names if name in named}
    arrays = {n: v.base if isinstance(v, TensorDescriptor) else v for n, v in values.items()}
    return target_of(adapt(value, f"argument {name!r}") for name, value in arrays.items())


def machine_of(target: Target) -> str:
    """Return what identifies the device of a target and its driver, as text."""
    backend = backends.get(target.backend)
    parts = [str(target), platform.machine()]
    if isinstance(backend, DeviceNamed):
        with suppress(BackendError):  # there is no device
            parts += backend.device_names(target)
    return ", ".join(parts)


def _code_of(kernel: Any, function: Callable[..., object]) -> str:
    """Return a text of the kernel's code, with that of the functions that it calls."""
    digest = getattr(innermost(kernel), "cache_key", None)
    where = f"{function.__module__}.{function.__qualname__}"
    return f"{where}\0{inspect.getsource(function) if digest is None else digest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


# -- exchanging results


def results_in(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the path within a folder, and the content, of every result in it."""
    for path in sorted(folder.rglob("*.json")):
        try:
            content = json.loads(read_regular_file(path))
            StoredResult.of(content)
        except (OSError, ValueError, TypeError):
            continue
        yield path.relative_to(folder).as_posix(), content


def export_results(folder: Path, file: Path) -> int:
    """Write all results in a folder to one file, and return their number. Raises `OSError`."""
    results = dict(results_in(folder))
    text = json.dumps({"format": FORMAT, "results": results}, indent=1)
    write_atomically(file, text.encode())
    return len(results)


def import_results(file: Path, folder: Path) -> tuple[int, int]:
    """Add the results of a file; return the numbers of new ones and of those that were there.

    A result that is there stays. Raises `OSError`, and `ValueError` for a file that is no export;
    then nothing is added.
    """
    try:
        results = _exported(_json(read_regular_file(file)))
    except ValueError as error:
        raise ValueError(f"{file} is no export of tuning results: {error}") from error
    new = {path: result for path, result in results.items() if not (folder / path).exists()}
    for path, result in new.items():
        write_atomically(folder / path, json.dumps(result, indent=1).encode())
    return len(new), len(results) - len(new)


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError as error:  # also of bytes that are no UTF-8
        raise ValueError(f"it is not JSON, or was cut off ({error})") from error


def _exported(content: object) -> dict[str, Any]:
    """Return the results of an export by path. Raises `ValueError` for any other content."""
    if not isinstance(content, dict):
        raise ValueError(f"it is a JSON {type(content).__name__}, not an object")
    if "format" not in content:
        raise ValueError(f'it names no format; an export begins with {{"format": "{FORMAT}"')
    if content["format"] != FORMAT:
        raise ValueError(
            f"its format is {content['format']!r}, and this version of tile reads {FORMAT!r}"
        )
    results = content.get("results")
    if not isinstance(results, dict):
        raise ValueError("it has no object of results; one result alone is no export")
    for path, result in results.items():
        if not _is_inside(path):
            raise ValueError(f"it names the path {path!r}")
        try:
            StoredResult.of(result)
        except ValueError as error:
            raise ValueError(f"of its result {path}, {error}") from error
    return results


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 3 and all(p.strip(".") and "\\" not in p for p in parts)
