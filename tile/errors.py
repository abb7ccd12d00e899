"""Every error that `tile` raises.

Checks raise errors without a location; the caller that knows the location (builder, pass manager,
interpreter) adds it with `with stamp(loc):`. An error renders itself as message, source excerpt
with a caret under the expression, and call chain, so that a caller only has to print the exception.
Messages, notes and source lines have a bounded length (`tile.short_repr`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tile.location import Loc, describe
from tile.short_repr import clip

if TYPE_CHECKING:
    from tile.faults import Fault


class TileError(Exception):
    """Base of all errors of this package.

    `message` states the error and the remedy, `loc` is the location in the user's code (None until
    stamped), and `notes` are further facts, one per line.
    """

    def __init__(self, message: str, *, loc: Loc | None = None, notes: Sequence[str] = ()) -> None:
        message = clip(message)
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.notes = list(notes)

    def __str__(self) -> str:
        parts = [self.message]
        if self.loc is not None:
            parts.append(describe(self.loc))
        parts.extend(f"  note: {clip(note)}" for note in self.notes)
        return "\n".join(parts)


class PerformanceWarning(UserWarning):
    """A line of a kernel, or a kernel, takes more than twice the time that it could.

    Issued when a kernel is compiled, once for each line, or launched, once for each kernel; the
    message says why, and what would be faster.
    `warnings.simplefilter("ignore", tile.PerformanceWarning)` silences it.
    """


class TypeRuleError(TileError):
    """An operation's type rule rejects its operands or attributes."""


class CompilationError(TileError):
    """The kernel's Python source is not a valid tile program."""


class StaticAssertionError(CompilationError):
    """The condition of a `static_assert` is false."""


class UnsupportedSyntaxError(CompilationError):
    """A statement or expression of Python that kernels cannot have."""


class OutOfResourcesError(CompilationError):
    """The kernel needs more registers, shared memory or threads than the target has.

    `required` and `limit` are numbers of what `name` says, such as bytes of `"shared memory"`; None
    and an empty text where the device does not tell. `OutOfResourcesError(required, limit, name)`
    makes the message from them.
    """

    def __init__(
        self,
        message: str | int | None = None,
        limit: int | None = None,
        name: str = "",
        *,
        required: int | None = None,
        loc: Loc | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        if not isinstance(message, str):
            required = required if message is None else message
            message = f"out of resource: {name}, {required} are needed; the limit is {limit}"
        super().__init__(message, loc=loc, notes=notes)
        self.required = required
        self.limit = limit
        self.name = name


class ArgumentError(TileError):
    """A kernel, grid or tool was called with an argument that it does not accept."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is missing, unknown or of the wrong kind."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument is of the right kind with a value that cannot be used."""


class NoGridError(ArgumentTypeError, RuntimeError):
    """A kernel was called like a function, without a grid."""


class TritonLoadedError(TileError, ImportError):
    """Triton itself is loaded, so `tile` cannot take its name."""


class TorchVersionError(TileError, ImportError):
    """PyTorch is not installed, or is a version that `tile.torch` does not support."""


class JaxVersionError(TileError, ImportError):
    """JAX is not installed, or is a version that `tile.jax` does not support."""


class AutotunerError(ArgumentValueError):
    """An autotuner is left without a configuration to try."""


class HookError(TileError):
    """A user's function passed to a tuner or to `heuristics` raised; see `__cause__`."""


class IRError(TileError):
    """The IR is invalid."""


class ParseError(IRError):
    """IR text that does not follow the grammar."""


class VerificationError(IRError):
    """IR that breaks a rule of its level."""


class LinkError(IRError):
    """Modules that do not fit together, or a call of a function that no module defines."""


class PassError(IRError):
    """A pass failed, is unknown, or was given invalid options."""


class BackendError(TileError):
    """A backend is unknown or cannot be used here."""


class UnsupportedError(BackendError):
    """A backend does not support an operation or type of the program."""


class ExecutionError(TileError):
    """A fault while a kernel ran; `fault` has it as data if a check of the grid reported it."""

    fault: Fault | None = None


class OutOfBoundsError(ExecutionError):
    """An access outside the array or view that was passed."""


class DataRaceError(ExecutionError):
    """Unordered accesses of two programs to the same memory, at least one of them a write.

    Also: one store that writes two different values to the same address.
    """


class UndefinedValueError(ExecutionError):
    """An undefined value reached memory, a branch, an address or an atomic operation."""


class IntegerOverflowError(ExecutionError):
    """Signed arithmetic wrapped on its way to an address, a mask or the bounds of a loop."""


class BrokenAssumptionError(ExecutionError):
    """A promise to the compiler is false: `assume`, `multiple_of` and the like, an alignment."""


class VectorAccessError(OutOfBoundsError):
    """A vector access that is not contiguous, not aligned to its size, or partially masked."""


class SharedMemoryError(ExecutionError):
    """A wrong use of shared memory."""


class SharedBoundsError(SharedMemoryError, OutOfBoundsError):
    """An access outside the buffer."""


class UndefinedReadError(SharedMemoryError):
    """A read of shared memory that was never written."""


class RaceError(ExecutionError):
    """Accesses of two threads of a program to one address, one a write, with no barrier between."""


class CopyInFlightError(SharedMemoryError):
    """An access to the destination of an asynchronous copy before it was waited for."""


class MbarrierError(SharedMemoryError):
    """A wrong use of an mbarrier."""


class WgmmaInFlightError(SharedMemoryError):
    """An access to the accumulator or an operand of a wgmma that was not waited for."""


class DivergenceError(ExecutionError):
    """A warp-wide or program-wide operation that some of the threads do not execute."""


class DeadlockError(ExecutionError):
    """Every remaining program waits for something that no program can do."""


class DeviceAssertionError(ExecutionError):
    """A `device_assert` was false."""


class stamp:  # noqa: N801 - used as a function
    """Set the location of a `TileError` raised inside a `with` block that has none yet.

    A class, since every expression and operation enters one, and a generator takes longer.
    """

    __slots__ = ("loc",)

    def __init__(self, loc: Loc | None) -> None:
        self.loc = loc

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, TileError) and error.loc is None:
            error.loc = self.loc
