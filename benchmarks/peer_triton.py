"""Time Triton's interpreter on each case, in an environment of its own.

    python benchmarks/peer_triton.py                 all cases, as JSON on standard output
    python benchmarks/peer_triton.py --case NAME     one case; may be repeated

Any Python can run the script. It creates the peer's environment if necessary (Triton, PyTorch and a
NumPy that both accept: about 1.6 GB) and runs itself inside it. Importing this module needs only
the standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

DEFAULT_ROOT = Path.home() / ".cache" / "tile-benchmarks" / "triton-3.6"

# Triton 3.6's interpreter fails with a later NumPy. There are two steps, so that a PyTorch that
# requires another Triton does not prevent the installation of this one.
INSTALLS = (("torch==2.13.0", "numpy<2.3"), ("triton==3.6.0", "numpy<2.3"))

SEED = 0
LONG_SECONDS = 3.0
REPETITIONS = 3


def peer_environment(root: Path = DEFAULT_ROOT) -> Path:
    """Return the Python of a virtual environment with Triton and PyTorch in the folder `root`.

    The first call creates it. It is created again if its required packages have changed or the
    installation was interrupted. Raises `FileExistsError` if `root` has other contents, and
    `subprocess.CalledProcessError` if a package cannot be installed.
    """
    python = root / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    finished = root / "installed.json"
    required = json.dumps(INSTALLS)
    if python.exists() and finished.exists() and finished.read_text() == required:
        return python
    if root.exists() and any(root.iterdir()) and not (root / "pyvenv.cfg").exists():
        raise FileExistsError(f"{root} is neither empty nor a virtual environment; name another")
    packages = ", ".join(dict.fromkeys(package for step in INSTALLS for package in step))
    print(f"Installing {packages} into {root} (once) ...", file=sys.stderr, flush=True)
    venv.create(root, clear=True, with_pip=True, symlinks=os.name != "nt")
    for step in INSTALLS:
        subprocess.run([str(python), "-m", "pip", "install", "-qq", *step], check=True)
    finished.write_text(required)
    return python


def measure_peer(
    cases: Sequence[str] = (), root: Path = DEFAULT_ROOT
) -> dict[str, dict[str, float]]:
    """Run `cases` (all, if none is named) under Triton's interpreter, in the environment at `root`.

    Returns for each case `seconds`, the median time of a launch, and `max_error`, the largest
    difference from NumPy. Raises `subprocess.CalledProcessError` if a result is wrong.
    """
    options = [option for case in cases for option in ("--case", case)]
    finished = subprocess.run(
        [str(peer_environment(root)), __file__, "--inside", *options],
        env={**os.environ, "TILE_PEER": "triton", "TRITON_INTERPRET": "1"},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    measured: dict[str, dict[str, float]] = json.loads(finished.stdout)
    return measured


def median_seconds(launch: Callable[[], object]) -> float:
    """Return the median seconds of launches after the first; only of the first if it is long."""
    first = seconds(launch)
    if first > LONG_SECONDS:
        return first
    return statistics.median(seconds(launch) for _ in range(REPETITIONS))


def seconds(launch: Callable[[], object]) -> float:
    """Return the CPU seconds of one launch."""
    start = time.process_time()
    launch()
    return time.process_time() - start


def measure_here(names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Run the cases with these names with the Triton of this environment."""
    # Only the peer environment has these packages.
    import numpy as np
    import torch
    from peer_cases import CASES

    unknown = sorted(set(names) - set(CASES))
    if unknown:
        raise SystemExit(f"no case named {unknown[0]!r}; there are {', '.join(CASES)}")
    measured = {}
    for name in names or CASES:
        case = CASES[name]
        prepared = case.prepare(np.random.default_rng(SEED), torch.from_numpy)
        elapsed = median_seconds(prepared.launch)
        error = float(np.abs(prepared.output() - prepared.reference()).max())
        if not error <= case.tolerance:
            raise SystemExit(f"{name}: off by {error:.1e}, more than {case.tolerance:.1e}")
        print(
            f"triton  {name:22} {elapsed:9.4f} s   error {error:.1e}", file=sys.stderr, flush=True
        )
        measured[name] = {"seconds": elapsed, "max_error": error}
    return measured


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description="time kernels under Triton's interpreter")
    parser.add_argument("--case", action="append", default=[], help="a key of CASES; all if absent")
    parser.add_argument("--root", type=Path, default=DEFAULT_ROOT, help="folder of the environment")
    parser.add_argument(
        "--inside", action="store_true", help="this is the peer environment already"
    )
    options = parser.parse_args()
    try:
        measured = (
            measure_here(options.case)
            if options.inside
            else measure_peer(options.case, options.root)
        )
    except subprocess.CalledProcessError as failed:
        raise SystemExit(failed.returncode) from failed  # it has said why
    json.dump(measured, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
