"""Helper functions in OpenCL C, in files of that language; empty lines separate them.

floats        conversions of narrow floats, rounding, reports of assertions
f16_by_bits   conversions of f16 for devices that convert it by its bits
ptx           NVIDIA's instructions, in inline PTX
atomic_float, atomic_narrow
              atomic operations as loops around compare-and-swap
bits, rounding, elementary, errors, gamma, bessel
              functions of libdevice, as in the modules of these names in
              `tile/ir/semantics/libdevice`

Functions of libdevice begin with `nv_`, since compilers have functions such as `j0` of their own.
`$NAME` stands for a number or an expression, which Python computes. Names that end in `_near`
evaluate the polynomials of the module.
"""

from __future__ import annotations

import functools
from pathlib import Path
from string import Template


def source(file: str, **values: float | str) -> str:
    """Return the text of a file, such as "gamma.cl", with values for the names that begin by $."""
    return _template(file).substitute(values)


@functools.cache
def _template(file: str) -> Template:
    return Template(Path(__file__).with_name(file).read_text(encoding="utf-8"))
