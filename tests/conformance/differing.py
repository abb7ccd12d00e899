"""List the conformance tests that CI runs on each target, with reasons.

The whole suite runs on `interp`, where a tile is one array, and on `interp:wgmma`, which has every feature
of the simulated machines. Each other machine lacks some features or has warps of another width. With
`--differing`, only tests of operations whose lowering depends on that difference run there.

The table is checked against the lowered text. Of the 1,334 kernels of the suite, compiled for equally many
warps and stages, 566 lower differently for `plain` than for `group`; 115 differ for `generic` from both;
129 differ for `async` from those three; 96 differ for `matrix` from those four. Nearly all differ for
`wide`, most of them only in the number of lanes that an index counts.

OpenCL C has an emitter of its own for every operation, and each runtime has its own compiler, so most of
the suite runs there.

`.ci/nightly` runs the whole suite on all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.types import ALL


def of(*operations: str) -> tuple[str, ...]:
    """Return the beginnings of the names of tests parametrized by operations."""
    return tuple(
        f"{file}.py::{file}[{name}-" for name in operations for file in ("test_pure", "test_large")
    )


@dataclass(frozen=True)
class Group:
    """Tests, selected by the beginnings of their names, that run on a target for one reason."""

    reason: str
    tests: tuple[str, ...]
    but: tuple[str, ...] = ()  # excludes names that contain one of these

    def has(self, name: str) -> bool:
        """Return True if the group has a test, named as in `file.py::test[case]`."""
        return name.startswith(self.tests) and not any(part in name for part in self.but)


LANES = Group(
    "elements move between lanes: by shuffles, warp reductions or shared memory; what is moved is a "
    "number of bits, whatever its type",
    (
        *of("broadcast", "trans", "flip", "join", "split", "gather", "histogram", "sort"),
        *of("reduce", "scan", "arg_reduce", "reduce_region", "scan_region"),
        "test_combining.py",
        "test_conditional_barriers.py",
    ),
    but=(
        *("test_sums[", "test_sort[", "test_two_tiles_that_decide_together[", "test_gather["),
        *("test_scans_keep_the_order[", "-masked]"),
    ),
)
HANDED_OUT = Group(
    "one lane broadcasts a value that it loaded, or an atomic result, to others: each type once, "
    "and each kind",
    (
        *(
            f"test_effects.py::test_atomic_rmw[used-{kind}"
            for kind in (
                "add-",
                "max-f16]",
                "min-u64]",
                "and-u8]",
                "or-i64]",
                "xor-i32]",
                "xchg-f64]",
            )
        ),
        "test_effects.py::test_atomic_cas",
        "test_descriptors.py::test_rows_are_gathered_and_scattered",
    ),
)
DOTS = Group(
    "dots by FMA, mma or wgmma; operands by loads, cp.async or TMA",
    (
        *of("dot"),
        "test_dot_loops.py",
        "test_dots.py",
        "test_descriptors.py::test_dots_of_descriptor_blocks",
        "test_grid_barriers.py::test_nine_dots",
    ),
)
FMA_DOTS = Group(
    "dots by FMA of operands that cp.async copies: FMA takes them from registers, so some types do",
    DOTS.tests,
    but=("test_dots_of_operands_in_every_order[", "test_widened_operands[", "-masked]"),
)
ONE_WARP = Group("dots of a single warp, by FMA", of("dot"))
NARROW = Group(
    "arithmetic and comparisons of f16 and bf16, which some machines lack and do in f32",
    of("add", "sub", "mul", "fma", "min", "max", "cmp"),
    but=("-masked]",),
)
BLOCKS = Group(
    "descriptor blocks by TMA or by pointers",
    (
        "test_descriptors.py::test_blocks_are_read_within_bounds",
        "test_descriptors.py::test_descriptors_pass_through_control_flow_and_calls",
    ),
)
SHARED = Group(
    "layouts of large tiles are converted in shared memory if it is large enough",
    (
        "test_combining.py::test_large_tiles",
        "test_large.py::test_large[trans-",
        "test_large.py::test_large[sort-",
    ),
)
F16_ALONE = Group(
    "arithmetic on f16 but not on bf16, and no warp reductions",
    (
        *of("fma", "sort", "reduce", "scan", "arg_reduce"),
        "test_combining.py::test_extrema_of_what_is_negated",
    ),
    but=("-masked]",),
)
EMITTED = Group(
    "emitter and compiler are different; cases that are emitted alike are left out or sampled",
    ("test_",),
    # Intel's compiler takes several times as long for scans of a square as for those of the line and
    # the cube, which stay.
    but=(
        *("-masked]", "test_large_tiles[dims1-", "test_atomic_rmw[blind-", "test_gather["),
        *("test_sums[", "test_sort[", "test_two_tiles_that_decide_together["),
        # Operands are read from memory in any case, and a scan backwards is one of flipped tiles.
        *("-computed]", "test_scans_keep_the_order["),
        # Padding is masked before: emitted code of padded tiles is that of others.
        "-least]",
        # Loops over the elements of large tiles are those of reductions, dots and sorts.
        *("test_large[scan-", "test_large[scan_region-", "test_large[arg_reduce-"),
        *(
            "test_moves[",
            "test_dots_of_operands_in_every_order[",
            "test_blocks_are_combined_within_bounds[",
        ),
        # Scans are of the kinds of reductions.
        *("test_pure[scan-full]", "test_operations[scan-"),
        # These are expanded to shifts, bitwise operations and selects, which have tests of their own.
        *(
            f"test_integers[{family}]"
            for family in ("bitwise", "counts", "fields", "permutations", "video")
        ),
    ),
)
MASKS = Group(
    "masks on loads and stores do not depend on the operation: each type once, and so scans",
    tuple(f"test_pure.py::test_pure[{name}-masked]" for name in ("select", "scan")),
)
TYPES = Group(
    "combined and sorted elements differ by the names of their types: integers, floats, emulated ones",
    tuple(
        f"test_combining.py::{test}[{ty}{rest}]"
        for ty in ("u8", "i32", "bf16", "f64")
        for test, rest in (
            *(("test_sums", ""), ("test_sort", ""), ("test_moves", "")),
            ("test_two_tiles_that_decide_together", "-first_greatest"),
        )
    ),
)
OPERANDS = Group(
    "operands of dots are converted when they are read: each type, and sums of few bits, once",
    tuple(
        f"test_dot_loops.py::test_dots_of_operands_in_every_order[{kind}-loaded]"
        for kind in (
            *(
                "f16-f16-f16-ieee-0",
                "bf16-bf16-f32-ieee-0",
                "f32-f32-f32-tf32x3-0",
                "i8-i8-i32-ieee-0",
            ),
            "f8e5m2-f8e4m3-f32-ieee-64",
        )
    ),
)
COMBINED = Group(
    "atomics on blocks are those of pointers under masks: each type once, and each kind",
    tuple(
        f"test_descriptors.py::test_blocks_are_combined_within_bounds[{kind}"
        for kind in ("add-", "max-i64]", "min-f16]", "and-u8]", "or-i32]", "xor-u64]")
    ),
)
ORDERS = Group(
    "scans along one axis, several axes and an axis of one element, in one direction each",
    tuple(
        f"test_combining.py::test_scans_keep_the_order[{shape}-{reverse}]"
        for shape, reverse in (("(32,)", False), ("(4, 8)", True), ("(8, 1, 4)", False))
    ),
)
BRANCHES = Group(
    "branches in regions do not depend on the type: a few types",
    tuple(
        f"test_combining.py::test_two_tiles_that_decide_together[{ty}-first_greatest_by_branches]"
        for ty in ("i32", "f16")
    ),
)
INDICES = Group(
    "an index of 64 bits is used as one of 32 bits is: with one type of elements",
    (
        *(f"test_combining.py::test_gather[{ty}-i32]" for ty in map(str, ALL)),
        "test_combining.py::test_gather[f32-i64]",
    ),
)
BLIND = Group(
    "atomics whose old value is not read are emitted as those whose value is: some, and stores",
    tuple(
        f"test_effects.py::test_atomic_rmw[blind-{kind}"
        for kind in ("store-", "add-i32]", "add-f32]", "max-u64]", "xchg-f16]")
    ),
)
RANDOM = Group("random kernels", ("test_random.py",))
MOVES = (LANES, TYPES, INDICES, ORDERS)

TABLE: dict[str, tuple[Group, ...]] = {
    "interp:plain": (*MOVES, BRANCHES, HANDED_OUT, DOTS, NARROW, BLOCKS, RANDOM),
    "interp:generic": (*MOVES, ONE_WARP, RANDOM),
    "interp:cp_async": (FMA_DOTS, OPERANDS, SHARED, F16_ALONE, ORDERS, RANDOM),
    "interp:mma": (DOTS, SHARED, RANDOM),
    "interp:warp64": (*MOVES, HANDED_OUT, RANDOM),
    "opencl": (EMITTED, TYPES, OPERANDS, COMBINED, ORDERS, MASKS, BRANCHES, INDICES, BLIND),
}
