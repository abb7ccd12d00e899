"""What the driver says of a kernel that it has loaded."""

from __future__ import annotations

from tile.backends.base import KernelInfo
from tile.backends.nvptx import driver
from tile.backends.nvptx.facts import Facts


def kernel_info(
    loaded: driver.Loaded, where: driver.Device, facts: Facts, cluster: int
) -> KernelInfo:
    """Ask the driver; the device is the current one. `cluster` programs are launched as one."""
    programs = loaded.programs(facts.threads)
    return KernelInfo(
        device=f"cuda:{where.ordinal} ({where.name}, {where.architecture})",
        threads=facts.threads,
        max_threads=loaded.attribute("MAX_THREADS_PER_BLOCK"),
        registers=loaded.attribute("NUM_REGS"),
        local_bytes=loaded.attribute("LOCAL_SIZE_BYTES"),
        shared_bytes=loaded.attribute("SHARED_SIZE_BYTES") + facts.shared_bytes,
        programs=programs,
        cluster=cluster,
        clusters=loaded.clusters(facts.threads, cluster) if cluster > 1 else None,
        occupancy=programs * facts.threads / where.max_threads,
        binary_version="{}.{}".format(*divmod(loaded.attribute("BINARY_VERSION"), 10)),
    )
