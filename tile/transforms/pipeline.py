"""The target-independent pass pipeline. Importing this declares every pass on tiles."""

from __future__ import annotations

from tile.ir.passes import Pass, parse_pipeline
from tile.transforms import (
    canonicalize,
    cse,
    dce,
    drop_steps,
    expand_descriptors,
    fold,
    inline,
    licm,
    print_analysis,
    unroll,
    warn_plain_spins,
)

DECLARING = (
    canonicalize,
    cse,
    dce,
    drop_steps,
    expand_descriptors,
    fold,
    inline,
    licm,
    print_analysis,
    unroll,
    warn_plain_spins,
)

# The passes that every backend runs first. Inlined functions are removed early to save time.
TILE: tuple[Pass, ...] = tuple(
    parse_pipeline(
        "drop-steps,inline,dce,warn-plain-spins,canonicalize,cse,licm,canonicalize,cse,dce"
    )
)
