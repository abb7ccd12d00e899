"""Tests of libraries that are written in Triton, unmodified from PyPI, on `tile`; a program.

    python -m tests.libraries.run
    python -m tests.libraries.run --library liger --sample 2
    python -m tests.libraries.run --device cuda --processes 14 --sample 3 --minutes 2

Installs the libraries into the environment of this Python, which has tile and PyTorch already, runs
their tests, and prints a table of counts. `liger` are liger-kernel's own tests, in its source
distribution; `fla` the operators of flash-linear-attention against formulas in PyTorch; `flag_gems`
PyTorch's operators on the inputs of its own tests, replaced by those of FlagGems; `packages`
functions of ten small packages against formulas in PyTorch. The program fails if fewer tests of a
library pass on a CPU than did.

On a GPU, tests that failed run a second time with Triton itself, if it is there: a test that fails
there too is not due to tile. Without a network, `--installed` takes libraries that are installed,
and `--folder` has the source distributions, in `FOLDER/liger`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = ("-p", "tests.libraries.plugin", "-p", "no:cacheprovider", "--tb=short", "-rs", "-q")
# Where pytest-benchmark is installed, it warns under pytest-xdist, and warnings may be errors.
PLUGIN += ("-p", "no:benchmark")
KINDS = ("passed", "failed", "skipped")
SHOWN = 30  # of the tests that failed


@dataclass(frozen=True)
class Library:
    """A library: what pip installs, what its tests need, and the command that runs these tests.

    installs: requirements, installed without what they ask for, as that is Triton.
    needs: other packages, installed with what they ask for.
    at_least: tests that have passed on a CPU; docs/compat.md says why others fail.
    version: the version of Triton that the library is told.
    sources: the requirement whose source distribution has the tests, in which the command runs.
    whole: all cases run, whatever `--sample` is: each is another operator.
    """

    installs: tuple[str, ...]
    needs: tuple[str, ...]
    command: tuple[str, ...]
    tests: tuple[str, ...]
    at_least: int
    version: str = "3.8.0"
    sources: str = ""
    whole: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_pytest(self) -> bool:
        """Return True if pytest runs the tests."""
        return self.command[0] == "pytest"


LIBRARIES: Mapping[str, Library] = {
    "liger": Library(
        ("liger-kernel==0.8.5",),
        ("transformers>=5,<6",),
        # A module asks at its import for the memory of a GPU.
        ("pytest", *PLUGIN, "-o", "log_cli=false", "--continue-on-collection-errors"),
        ("test/transformers",),
        at_least=330,
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
            "--rootdir=.",
            "--import-mode=importlib",
        ),
        ("tests/libraries/fla_ops.py", "tests/libraries/fla_naive.py"),
        at_least=69,
        # As in the library's own tests: their tolerances are not those of tf32.
        environment={"TRITON_F32_DEFAULT": "ieee"},
        whole=True,
    ),
    "packages": Library(
        (
            "adasplash==0.2.2",
            "conch-triton-kernels==1.3",
            "fasterkernels==0.2.0",
            "flash-swiglu-mlp==0.4.3",
            "flashlib==0.4.0",
            "grouped-mm-bf16==0.1.7",
            "jvp-flash-attention==0.14.0",
            "late-interaction-kernels==0.4.5",
            "local-corr-lumi==0.1.0",
            "mase-triton==0.0.7",
        ),
        ("tqdm", "einops", "packaging"),
        ("pytest", *PLUGIN, "-c", os.devnull, "--rootdir=.", "--import-mode=importlib"),
        ("tests/libraries/small_packages.py",),
        at_least=20,
        whole=True,
    ),
    "flag_gems": Library(
        ("flag-gems==5.0.2",),
        ("sqlalchemy", "pyyaml", "packaging", "expecttest"),
        ("tests.libraries.op_db", "flag_gems"),
        (),
        at_least=410,
        # It calls compiled kernels without their constants from 3.7 on, where Triton takes all.
        version="3.6.0",
        # See flag_gems_on_cpu.py.
        environment={"GEMS_VENDOR": "nvidia"},
    ),
}


@dataclass(frozen=True)
class Outcome:
    """A test's outcome: passed, failed or skipped."""

    outcome: str
    reason: str


def run(command: Sequence[str], folder: Path, log: Path | None, **environment: str) -> None:
    """Run a command; print its output as it comes, or write it to a log."""
    print("$", *(word if len(word) < 200 else "..." for word in command[:40]), flush=True)
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, **environment}
    with contextlib.ExitStack() as stack:
        out = None if log is None else stack.enter_context(log.open("ab"))
        subprocess.run(command, cwd=folder, env=variables, stdout=out, stderr=out, check=False)


def pip(*arguments: str) -> None:
    """Run pip; raises `CalledProcessError` if that fails."""
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True)


def install(library: Library) -> None:
    """Install a library and what its tests need."""
    pip("install", *library.needs)
    pip("install", "--no-deps", *library.installs)


def unpack(requirement: str, folder: Path) -> Path:
    """Download a source distribution if it is not there, unpack it, and return its folder."""
    if not any(folder.glob("*.tar.gz")):
        # Its metadata is built here, by what is installed, instead of in an environment for that.
        pip("install", "setuptools", "wheel")
        options = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-d", str(folder))
        pip("download", *options, requirement)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@dataclass(frozen=True)
class Runner:
    """Runs tests of libraries in one way.

    folder: for source distributions, outcomes and, if `logged`, the output of tests.
    processes: that run tests at the same time; 1 is the process of pytest itself.
    """

    folder: Path
    device: str = "cpu"
    processes: int = 1
    sample: int = 0
    cpu_seconds: int = 120
    minutes: float = 0.0
    configs: int = 0
    logged: bool = False

    def test(self, name: str) -> dict[str, Outcome]:
        """Run a library's tests with tile, and return the outcomes by the tests' names."""
        version = LIBRARIES[name].version
        triton = [sys.executable, "-m", "tile", "triton", "--version", version]
        return self.run(name, "tile", triton, LIBRARIES[name].tests, self.sample)

    def repeat(self, name: str, tests: Sequence[str]) -> dict[str, Outcome]:
        """Run some of a library's tests with Triton itself."""
        if not tests:
            return {}
        chosen = tests if LIBRARIES[name].by_pytest else ["--only", *tests]
        return self.run(name, "triton", [sys.executable], chosen, 0)

    def run(
        self, name: str, compiler: str, python: Sequence[str], tests: Sequence[str], sample: int
    ) -> dict[str, Outcome]:
        """Run a library's tests, and return their outcomes."""
        library = LIBRARIES[name]
        where = unpack(library.sources, self.folder / name) if library.sources else ROOT
        file = self.folder.resolve() / f"{name}-{compiler}.jsonl"
        file.write_text("", "utf-8")
        log = file.with_suffix(".log") if self.logged else None
        options = ["--outcomes", str(file), "--configs", str(self.configs)]
        if self.minutes:
            options += ["--minutes", str(self.minutes)]
        command = [*python, "-m", *library.command, *options]
        if library.by_pytest:
            command += [
                "--sample",
                str(0 if library.whole else sample),
                "--cpu-seconds",
                str(self.cpu_seconds),
            ]
            command += ["--default-device", self.device] if self.device != "cpu" else []
            command += ["-n", str(self.processes)] if self.processes > 1 else []
            commands = [[*command, *tests]]
        else:
            command += ["--device", self.device, *tests]
            parts = range(1, self.processes + 1)
            commands = [[*command, f"--part={part}/{self.processes}"] for part in parts]
        with ThreadPoolExecutor(len(commands)) as pool:
            for command in commands:
                pool.submit(run, command, where, log, **library.environment)
        return outcomes(file)


def outcomes(file: Path) -> dict[str, Outcome]:
    """Return the outcomes in a file, by the tests' names."""
    entries = map(json.loads, file.read_text("utf-8").splitlines())
    return {entry["id"]: Outcome(entry["outcome"], entry["reason"]) for entry in entries}


def failures(tests: Mapping[str, Outcome]) -> list[str]:
    """Return the names of tests that failed."""
    return [name for name, outcome in tests.items() if outcome.outcome == "failed"]


@dataclass(frozen=True)
class Report:
    """The outcomes of a library's tests with tile, and with Triton of those that failed."""

    tile: Mapping[str, Outcome]
    triton: Mapping[str, Outcome] | None

    def count(self, kind: str) -> int:
        """Return how many tests have an outcome."""
        return sum(outcome.outcome == kind for outcome in self.tile.values())

    def cells(self) -> list[str]:
        """Return the counts, as cells of the table."""
        shared = "" if self.triton is None else str(len(failures(self.triton)))
        return [*(str(self.count(kind)) for kind in KINDS), shared]

    def describe(self) -> list[str]:
        """Return lines about the failures, those of tile alone first, by their reason."""
        shared = set(failures(self.triton or {}))
        named = sorted(failures(self.tile), key=lambda name: (name in shared, name))
        lines = []
        for name in named[:SHOWN]:
            mark = "also with Triton: " if name in shared else ""
            lines.append(f"{mark}{name[-90:]}: {self.tile[name].reason[:150]}")
        return lines + [f"and {len(named) - SHOWN} more"] * (len(named) > SHOWN)


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--library", choices=LIBRARIES, action="append", help="only this one")
    add("--folder", type=Path, help="for source distributions, outcomes and logs")
    add("--sample", type=int, default=0, help="cases of each test function; 0 for all")
    add("--cpu-seconds", type=int, default=120, help="limit of each test's time")
    add("--minutes", type=float, default=0.0, help="no test of a library begins after these")
    add("--configs", type=int, default=0, help="that each autotuner tries; 0 for all")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="of the tensors")
    add("--processes", type=int, default=1, help="that run tests at the same time")
    add("--installed", action="store_true", help="install nothing")
    add("--logs", action="store_true", help="write the output of tests into the folder")
    return parser.parse_args()


def main() -> int:
    """Run the program, and return its exit status."""
    options = parse()
    reports = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        runner = Runner(
            folder,
            options.device,
            options.processes,
            options.sample,
            options.cpu_seconds,
            options.minutes,
            options.configs,
            options.logs,
        )
        for name in options.library or LIBRARIES:
            (folder / name).mkdir(parents=True, exist_ok=True)
            if not options.installed:
                install(LIBRARIES[name])
            tile = runner.test(name)
            again = options.device != "cpu" and importlib.util.find_spec("triton") is not None
            triton = runner.repeat(name, failures(tile)) if again else None
            reports[name] = Report(tile, triton)
    for name, report in reports.items():
        print(f"\n{name}:", *report.describe(), sep="\n  ")
    header = ["library", *KINDS, "failed with Triton too"]
    print(f"\n| {' | '.join(header)} |\n|{' --- |' * len(header)}")
    for name, report in reports.items():
        print(f"| {name} | {' | '.join(report.cells())} |")
    fewer = [name for name, r in reports.items() if r.count("passed") < LIBRARIES[name].at_least]
    return int(bool(fewer) and options.device == "cpu")


if __name__ == "__main__":
    sys.exit(main())
