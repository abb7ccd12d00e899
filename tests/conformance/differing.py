"""Which tests of this suite CI runs on which target, and why.

The whole suite runs on `interp`, where a tile is one array, and on `interp:group`, which can do what any of the other
machines can. Another machine differs by what it lacks, or by the width of its warps: with `--differing`, only tests of
operations that are lowered by that run there. Lowered for as many warps and stages, of the suite's 1,334 kernels 566
come out otherwise for `plain` than for `group`, 115 for `generic` than for both, 129 for `async` than for these three,
and 96 for `matrix` than for all four. For `wide` nearly all do, most by nothing but how many lanes an index counts.

OpenCL C is printed by an emitter of its own, whatever the operation, and compiled by each runtime in its own way, so
there nearly all of the suite differs.

`.ci/nightly` runs the whole suite on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass


def of(*operations: str) -> tuple[str, ...]:
    """The tests that take operations by name."""
    return tuple(
        f"{file}.py::{file}[{name}-" for name in operations for file in ("test_pure", "test_large")
    )


@dataclass(frozen=True)
class Group:
    """Tests by the beginnings of their names, and what they have in common."""

    reason: str
    tests: tuple[str, ...]
    but: tuple[str, ...] = ()  # without those whose names have one of these in them

    def has(self, name: str) -> bool:
        """Return True for the name of one of these tests, `file.py::test[case]`."""
        return name.startswith(self.tests) and not any(part in name for part in self.but)


LANES = Group(
    "elements move between lanes: by shuffles or through shared memory, in steps or at once",
    (
        *of("broadcast", "trans", "flip", "join", "split", "gather", "histogram", "sort"),
        *of("reduce", "scan", "arg_reduce", "reduce_region", "scan_region"),
        "test_combining.py",
        "test_conditional_barriers.py",
    ),
)
HANDED_OUT = Group(
    "one lane hands what it got from memory to others",
    (
        "test_effects.py::test_atomic_rmw[used-",
        "test_effects.py::test_atomic_cas",
        "test_descriptors.py::test_rows_are_gathered_and_scattered",
    ),
)
DOTS = Group(
    "dots by FMA, by instructions of a warp or of four; operands by loads, copies or TMA",
    (
        *of("dot"),
        "test_products.py",
        "test_descriptors.py::test_products_of_boxes",
        "test_grid_barriers.py::test_nine_dots",
    ),
)
ONE_WARP = Group("dots of a single warp, by FMA", of("dot"))
NARROW = Group(
    "arithmetic and comparisons of f16 and bf16, which some machines do in f32",
    of("add", "sub", "mul", "fma", "min", "max", "cmp"),
)
BLOCKS = Group(
    "blocks of descriptors by TMA or by pointers",
    (
        "test_descriptors.py::test_boxes_are_read_within_bounds",
        "test_descriptors.py::test_descriptors_pass_through_control_flow_and_calls",
    ),
)
SHARED = Group(
    "large tiles are converted through shared memory, where there is enough of it",
    (
        "test_combining.py::test_large_tiles",
        "test_large.py::test_large[trans-",
        "test_large.py::test_large[sort-",
    ),
)
F16_ALONE = Group(
    "arithmetic of f16 and not of bf16, and no instructions that reduce over a warp",
    (
        *of("fma", "sort", "reduce", "scan", "arg_reduce"),
        "test_combining.py::test_scans_keep_the_order",
        "test_combining.py::test_extrema_of_what_is_negated",
    ),
)
EMITTED = Group(
    "the text and its compiler are others: all but what is emitted alike, some of which follows",
    ("test_",),
    # Scans of a square take a compiler ten times as long as those of a line or a cube, which stay.
    but=("-masked]", "-first_greatest_by_branches]", "test_large_tiles[dims1-"),
)
MASKS = Group(
    "a mask is on a load or a store, whatever is computed: each type once",
    ("test_pure.py::test_pure[select-masked]", "test_pure.py::test_pure[cast-masked]"),
)
BRANCHES = Group(
    "branches in regions are the same for each type",
    tuple(
        f"test_combining.py::test_two_tiles_that_decide_together[{ty}-first_greatest_by_branches]"
        for ty in ("i32", "u8", "f16", "f64")
    ),
)
RANDOM = Group("what nobody has thought of", ("test_random.py",))

TABLE: dict[str, tuple[Group, ...]] = {
    "interp:plain": (LANES, HANDED_OUT, DOTS, NARROW, BLOCKS, RANDOM),
    "interp:generic": (LANES, ONE_WARP, RANDOM),
    "interp:async": (DOTS, SHARED, F16_ALONE, RANDOM),
    "interp:matrix": (DOTS, SHARED, RANDOM),
    "interp:wide": (LANES, HANDED_OUT, RANDOM),
    "opencl": (EMITTED, MASKS, BRANCHES),
}
