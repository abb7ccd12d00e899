"""Tests of libraries that are written in Triton, unmodified from PyPI, on `tile`; a program.

    python -m tests.libraries.run
    python -m tests.libraries.run --library liger --sample 2

Installs the libraries into the environment of this Python, which has tile and PyTorch already, runs
their tests, and prints a table of counts. `liger` are liger-kernel's own tests, in its source
distribution; `fla` the operators of flash-linear-attention against formulas in PyTorch; `flag_gems`
PyTorch's operators on the inputs of its own tests, replaced by those of FlagGems. The program fails
if fewer tests of a library pass than did.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "tests.libraries.plugin", "-p", "no:cacheprovider", "--tb=short", "-rs", "-q")
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
KINDS = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class Library:
    """A library: what pip installs, what its tests need, and the command that runs them.

    installs: requirements, installed without what they ask for, as that is Triton.
    needs: other packages, installed with what they ask for.
    at_least: tests that have passed; docs/compat.md says why others fail.
    version: the version of Triton that the library is told.
    sources: the requirement whose source distribution has the tests, in which the command runs.
    whole: all cases run, whatever `--sample` is: each is another operator.
    """

    installs: tuple[str, ...]
    needs: tuple[str, ...]
    command: tuple[str, ...]
    at_least: int
    version: str = "3.8.0"
    sources: str = ""
    whole: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


LIBRARIES: Mapping[str, Library] = {
    "liger": Library(
        ("liger-kernel==0.8.5",),
        ("transformers>=5,<6",),
        (
            *("pytest", *PLUGIN, "-o", "log_cli=false"),
            # A module asks at its import for the memory of a GPU.
            "--continue-on-collection-errors",
            "test/transformers",
        ),
        at_least=338,
        sources="liger-kernel==0.8.5",
    ),
    "fla": Library(
        ("fla-core==0.6.0", "flash-linear-attention==0.6.0"),
        ("einops", "transformers>=5.6.2,<6"),
        (
            "pytest",
            *PLUGIN,
            "-c",
            os.devnull,
            "--import-mode=importlib",
            "tests/libraries/fla_ops.py",
        ),
        at_least=42,
        # As in the library's own tests: their tolerances are not those of tf32.
        environment={"TRITON_F32_DEFAULT": "ieee"},
        whole=True,
    ),
    "flag_gems": Library(
        ("flag-gems==5.0.2",),
        ("sqlalchemy", "pyyaml", "packaging", "expecttest"),
        ("tests.libraries.op_db", "flag_gems"),
        at_least=370,
        # It calls compiled kernels without their constants from 3.7 on, where Triton takes all.
        version="3.6.0",
        # See flag_gems_on_cpu.py.
        environment={"GEMS_VENDOR": "nvidia"},
    ),
}


def run(command: Sequence[str], folder: Path = ROOT, **environment: str) -> str:
    """Run a command, print its output as it comes, and return it."""
    print("$", *command, flush=True)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    process.wait()
    return "".join(lines)


def pip(*arguments: str) -> None:
    """Run pip; raises `CalledProcessError` if that fails."""
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def install(library: Library) -> None:
    """Install a library and what its tests need."""
    pip("install", *library.needs)
    pip("install", "--no-deps", *library.installs)


def unpack(requirement: str, folder: Path) -> Path:
    """Download a source distribution, unpack it, and return its folder."""
    # Its metadata is built here, by what is installed, instead of in an environment made for that.
    pip("install", "setuptools", "wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-d", str(folder))
    pip("download", *options, requirement)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def counts(output: str) -> dict[str, int]:
    """Return the counts of the last line that has any."""
    lines = [line for line in output.splitlines() if COUNT.search(line) and " in " in line]
    found = COUNT.findall(lines[-1]) if lines else []
    result = dict.fromkeys(KINDS, 0)
    for number, kind in found:
        result["failed" if kind.startswith("error") else kind] += int(number)
    return result


def test(name: str, folder: Path, options: Sequence[str]) -> dict[str, int]:
    """Install a library, run its tests, and return their counts."""
    library = LIBRARIES[name]
    install(library)
    where = unpack(library.sources, folder / name) if library.sources else ROOT
    own = options if library.command[0] == "pytest" else ()
    if library.whole:
        own = (*own, "--sample", "0")
    triton = [sys.executable, "-m", "tile", "triton", "--version", library.version]
    command = [*triton, "-m", *library.command, *own]
    return counts(run(command, where, **library.environment))


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=LIBRARIES, action="append", help="only this one")
    parser.add_argument("--folder", type=Path, help="a folder for source distributions")
    parser.add_argument("--sample", default="0", help="cases of each test function; 0 for all")
    parser.add_argument("--cpu-seconds", default="120", help="limit of each test's time")
    arguments = parser.parse_args()
    options = ("--sample", arguments.sample, "--cpu-seconds", arguments.cpu_seconds)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        names = arguments.library or list(LIBRARIES)
        results = {name: test(name, folder, options) for name in names}
    print(f"\n| library | {' | '.join(KINDS)} |\n|{' --- |' * (1 + len(KINDS))}")
    for name, result in results.items():
        print(f"| {name} | {' | '.join(str(result[kind]) for kind in KINDS)} |")
    fewer = [name for name, r in results.items() if r["passed"] < LIBRARIES[name].at_least]
    return int(bool(fewer))


if __name__ == "__main__":
    sys.exit(main())
