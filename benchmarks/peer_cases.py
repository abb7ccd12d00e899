"""All kernels that `interp.py` times on this project's interpreter and on Triton's, by name."""

from __future__ import annotations

from peer_kernels import CASES as ALGORITHMS
from peer_kernels import Case
from peer_ops import OPERATIONS

CASES: dict[str, Case] = {**ALGORITHMS, **OPERATIONS}
