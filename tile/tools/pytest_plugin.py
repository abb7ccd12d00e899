"""The pytest plugin under its earlier name, for configurations with `-p tile.tools.pytest_plugin`.

The plugin itself is the top-level module `pytest_tile`.
"""

from pytest_tile import (
    pytest_addoption,
    pytest_configure,
    pytest_load_initial_conftests,
    pytest_report_header,
)

__all__ = [
    "pytest_addoption",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "pytest_report_header",
]
