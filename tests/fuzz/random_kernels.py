"""Random kernels by number, and what a target makes of one."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests import pocl
from tests.fuzz import dot_loops, generate, matmuls, row_loops
from tests.fuzz.generate import Case
from tests.fuzz.running import assert_same
from tests.fuzz.sizes import LARGE, SMALL, UNPADDED, UNPADDED_LARGE, Sizes
from tests.fuzz.writer import Pick
from tile import backends
from tile.backends.base import Options, Target
from tile.errors import OutOfResourcesError, UnsupportedError
from tile.ir.builder import Builder
from tile.ir.descriptor_type import addresses_memory
from tile.ir.module import Module
from tile.ir.ops import arith

SIZES: dict[str, Sizes] = {
    "small": SMALL,
    "large": LARGE,
    "unpadded": UNPADDED,
    "unpadded-large": UNPADDED_LARGE,
}
# What makes a kernel of each kind.
KINDS: dict[str, Callable[[Pick], Case]] = {
    **{name: partial(generate.make, sizes=sizes) for name, sizes in SIZES.items()},
    "dot-loops": dot_loops.make,
    "row-loops": row_loops.make,
    "matmuls": matmuls.make,
}
WARPS, STAGES = (1, 2, 4, 8), (1, 2, 3, 4)
# Results do not depend on these either, which few targets obey.
USES_OF_TMA = (None, None, "", "stores", "strips", "stores+strips+pointers")
WARP_SPECIALIZE = (None, None, True, False)


class Verdict(enum.Enum):
    """The outcome of a kernel."""

    SAME = "the same"
    REFUSED = "refused"  # a device may lack the memory or the types
    WRONG = "wrong"


@dataclass(frozen=True)
class Drawn:
    """The kernel of a number: the same one in each process."""

    number: int
    kind: str
    case: Case
    options: Options

    @classmethod
    def of(cls, number: int, kind: str) -> Drawn:
        """Draw it, and how it is launched."""
        generator = random.Random(number)
        case = KINDS[kind](generator.randrange)
        warps, stages = generator.choice(WARPS), generator.choice(STAGES)
        options = Options(
            num_warps=warps,
            num_stages=stages,
            enable_fp_fusion=False,
            tma=generator.choice(USES_OF_TMA),
            warp_specialize=generator.choice(WARP_SPECIALIZE),
            num_ctas=2 if case.grid[0] % 2 == 0 and generator.random() < 0.2 else 1,
        )
        return cls(number, kind, case, options)

    def on(self, target: str) -> Sequence[Any]:
        """The arguments after a launch on a target, such as `opencl:intel` or `interp:mma`."""
        whole = resolved(target)
        backend = backends.get(whole.backend)
        arguments = self.case.arguments()
        module = exact(self.case.module, quotients=self.case.exact)
        artifact = backend.compile(module, whole, self.options)
        backend.load(artifact).launch(self.case.grid, arguments)
        return arguments

    def judge(self, target: str, wanted: Sequence[Any] | None = None) -> tuple[Verdict, str]:
        """Compare the target's results with the interpreter's, and return the outcome.

        wanted: the interpreter's results, where it has run the kernel before.

        Raises what the compiler and the device raise, but for what they may refuse.
        """
        if wanted is None:
            wanted = self.on("interp")
        try:
            assert_same(self.case, self.on(target), wanted)
        except (OutOfResourcesError, UnsupportedError) as error:
            return Verdict.REFUSED, error.message
        except AssertionError as error:
            return Verdict.WRONG, str(error)
        return Verdict.SAME, ""


def resolved(target: str) -> Target:
    """A target with its device. Raises what the backend does if there is none, or none such."""
    parsed = Target.parse(target)
    backend = backends.get(parsed.backend)
    if parsed.backend == "opencl":
        pocl.name_cpus()
    return backend.resolve(parsed)


def exact(module: Module, *, quotients: bool = True) -> Module:
    """A copy with quotients that are rounded to nearest, as the interpreter's are, if `quotients`.

    Its arrays do not overlap, and it says so: then loads can be invariant.
    """
    copy = module.clone()
    for value, argument in zip(copy.kernel.args, copy.kernel.arguments, strict=True):
        argument.noalias = addresses_memory(value.type)
    for op in list(copy.walk()) if quotients else ():
        if op.defn is arith.div and op.result.type.element.is_floating():
            op.replace_by([Builder.before(op)(arith.div_rn, *op.inputs)])
            op.erase()
    return copy
