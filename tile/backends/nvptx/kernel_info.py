"""Facts about a loaded kernel from the driver."""

from __future__ import annotations

from tile.backends.capabilities import KernelInfo
from tile.backends.nvptx import driver
from tile.backends.nvptx.launch_metadata import LaunchMetadata
from tile.backends.nvptx.loaded_module import Loaded


def kernel_info(
    loaded: Loaded, device: driver.Device, metadata: LaunchMetadata, cluster: int
) -> KernelInfo:
    """Query the driver; the device is the current one. `cluster` programs form a cluster."""
    programs = loaded.programs(metadata.threads)
    return KernelInfo(
        device=f"cuda:{device.ordinal} ({device.name}, {device.architecture})",
        threads=metadata.threads,
        max_threads=loaded.attribute("MAX_THREADS_PER_BLOCK"),
        registers=loaded.attribute("NUM_REGS"),
        local_bytes=loaded.attribute("LOCAL_SIZE_BYTES"),
        shared_bytes=loaded.attribute("SHARED_SIZE_BYTES") + metadata.shared_bytes,
        programs=programs,
        cluster=cluster,
        clusters=loaded.clusters(metadata.threads, cluster) if cluster > 1 else None,
        occupancy=programs * metadata.threads / device.max_threads,
        binary_version="{}.{}".format(*divmod(loaded.attribute("BINARY_VERSION"), 10)),
    )
