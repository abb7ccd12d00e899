"""Executors of Dask, Ray and MPI, each started on this machine, compile and measure.

Each test is skipped where its package is not installed; the extra `clusters-test` has all three.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.tuning.test_tuned_space import MACHINE, matmul_by

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", MACHINE)


@pytest.mark.filterwarnings("ignore")
def test_dask() -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, env=dict(os.environ)
    )
    with cluster, distributed.Client(cluster) as client:
        kernel = matmul_by(client.get_executor(), measure="executor")
    assert len(kernel.configs_timings) == 8 and not kernel.skipped


class RayExecutor(Executor):
    """Ray's tasks as an executor."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self.ray.remote(fn).remote(*args, **kwargs).future()
        return future


@pytest.mark.filterwarnings("ignore")
def test_ray() -> None:
    ray = pytest.importorskip("ray")
    environment = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=environment)
    try:
        kernel = matmul_by(RayExecutor(ray), measure="executor")
    finally:
        ray.shutdown()
    assert len(kernel.configs_timings) == 8 and not kernel.skipped


MPI = """
from mpi4py.futures import MPIPoolExecutor
from tests.runtime.tuning.test_tuned_space import matmul_by

if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        kernel = matmul_by(executor, measure="executor")
    print(len(kernel.configs_timings), len(kernel.skipped), "measured and skipped")
"""


def test_mpi(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    programs = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=f"{programs}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    program = tmp_path / "program.py"
    program.write_text(MPI)
    command = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert "8 0 measured and skipped" in done.stdout, done.stderr
