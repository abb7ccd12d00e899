"""Run programs that are written for Triton: `import triton` gives modules that show `tile`.

    import tile.compat

    tile.compat.install_as_triton()
    import triton, triton.language as tl  # tile's compiler, language, autotuner and cache

`tile triton program.py` does it for a whole program and for the processes that it starts.
`docs/compat.md` lists what these modules have, what differs from Triton, and what is absent.
"""

from __future__ import annotations

import sys

from tile.compat import torch_kernels
from tile.compat.environment import announce, announced, withdraw
from tile.compat.finder import VERSIONS, TritonFinder, is_view
from tile.compat.ignored_variables import warn_of_ignored
from tile.errors import ArgumentValueError, TritonLoadedError
from tile.language.base.constexpr import constexpr
from tile.short_repr import short_repr
from tile.tracebacks import public_function

__all__ = ["VERSIONS", "Installation", "install_announced", "install_as_triton", "installed"]

_CONSTEXPR_MODULE = constexpr.__module__
LATEST = "3.8.0"
"""The version that `TILE_TRITON=1` stands for: the last one with block pointers."""


class Installation:
    """The installed modules: `uninstall` removes them, and so does the end of a `with` block.

    version: the version of Triton that `triton.__version__` reports.
    """

    def __init__(self, finder: TritonFinder) -> None:
        self._finder = finder
        self.version = finder.version

    def uninstall(self) -> None:
        """Remove the modules; a later `import triton` finds what it would have found without.

        Objects that a program holds stay usable. Do nothing if they are removed already.
        """
        if self._finder not in sys.meta_path:
            return
        sys.meta_path.remove(self._finder)
        for name in torch_kernels.REPLACEMENTS:
            torch_kernels.restore(sys.modules.get(name))
        constexpr.__module__ = _CONSTEXPR_MODULE
        for name in [name for name, module in sys.modules.items() if is_view(name, module)]:
            del sys.modules[name]
        if announced() == self.version:
            withdraw()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()


@public_function
def install_as_triton(version: str = LATEST) -> Installation:
    """Let `import triton`, in this process, give modules that show the objects of `tile`.

    version: the version that `triton.__version__` reports, by which libraries choose what they use;
        one of `VERSIONS`. The modules have the names of all of these versions.

    A second call returns the same installation. Call it before libraries that look for Triton are
    imported, as PyTorch remembers the answer. Environment variables of Triton such as
    `TRITON_CACHE_DIR` take effect while the modules are installed; a warning names those set that
    have none.

    Raises `ArgumentValueError` for another version than that of an earlier call or than these, and
    `TritonLoadedError` if the program has imported Triton itself.

        with tile.compat.install_as_triton():
            import triton
    """
    if version not in VERSIONS:
        raise ArgumentValueError(
            f"install_as_triton takes one of the versions {', '.join(VERSIONS)}, not "
            f"{short_repr(version)}"
        )
    earlier = installed()
    if earlier is not None and earlier.version != version:
        raise ArgumentValueError(
            f"tile is installed as Triton {earlier.version}; uninstall() that before installing "
            f"version {version}"
        )
    if earlier is not None:
        return earlier
    loaded = sys.modules.get("triton")
    if loaded is not None:
        raise TritonLoadedError(
            f"Triton itself is loaded, from {getattr(loaded, '__file__', None) or 'elsewhere'}; "
            "call install_as_triton() before anything imports it"
        )
    finder = TritonFinder(version)
    sys.meta_path.insert(0, finder)
    for name in torch_kernels.REPLACEMENTS:
        torch_kernels.replace(sys.modules.get(name))
    # TorchInductor writes source that names the class of an annotated global by its module,
    # and which imports `triton` alone.
    constexpr.__module__ = "triton.language.core"
    announce(version)
    warn_of_ignored()
    return Installation(finder)


@public_function
def install_announced() -> Installation:
    """Install the version that the environment variable `TILE_TRITON` names, 1 for `LATEST`."""
    version = announced()
    return install_as_triton(version if "." in version else LATEST)


def installed() -> Installation | None:
    """Return the installation in this process, or None if there is none."""
    finder = next((one for one in sys.meta_path if isinstance(one, TritonFinder)), None)
    return None if finder is None else Installation(finder)
