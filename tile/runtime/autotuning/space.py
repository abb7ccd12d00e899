"""Search spaces: the values of each dimension of a kernel's configurations, and their rules.

    Space(BM=(32, ..., 128), BN=(32, ..., 128), BK=(8, ..., 32), thread_tile=(1, ..., 4))

is the exhaustive space of the Triton paper (MAPL 2019, section 5.3): tiles of 32 to 128, 8 to 32
along the reduction, and 1 to 4 elements for each thread, all in powers of two. `...` between two
powers of two stands for those between them. A dimension is a constant of the kernel or a compile
option; a `Config` is one point of the space.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tile.backends.base import Options
from tile.errors import ArgumentTypeError, ArgumentValueError, AutotunerError
from tile.runtime.autotuning.configs import OPTION_FIELDS, Config, user_code
from tile.short_repr import short_repr
from tile.simt.tile_sizes import parse_tile_sizes
from tile.tracebacks import public_class, public_function

TILE_OPTIONS = ("thread_tile", "warp_rows")  # options that only dots have
# A size of one tile, all of which the option `tile_sizes` joins: `dot0_thread` is a thread's rows
# and columns ("2x4"), `dot0_warps` the warps along its rows, `load1_width` contiguous elements.
TILE_DIMENSION = re.compile(r"(?:dot\d+_(?:thread|warps)|(?:load|store)\d+_width)")
MOST_CONFIGS = 1 << 20  # of a space that is listed; a mistake, rather than a search, has more
Point = dict[str, Any]
Rule = Callable[..., object]


@dataclass(frozen=True)
class Dimension:
    """A dimension of a space.

    name: a constant of the kernel, or a compile option.
    values: in the order in which neighbors are next to each other.
    reason: what in the kernel it comes from; empty if the user listed it.
    """

    name: str
    values: tuple[Any, ...]
    reason: str = ""

    @property
    def is_option(self) -> bool:
        """True for a compile option, False for a constant of the kernel."""
        return self.name in Options.names() or TILE_DIMENSION.fullmatch(self.name) is not None

    def __str__(self) -> str:
        values = ", ".join([str(value) or "''" for value in self.values])
        return f"{self.name}: {values}" + (f"  ({self.reason})" if self.reason else "")


@public_class
class Space:
    """The configurations of a kernel: all points of its dimensions that its rules permit.

    `Space(BLOCK=(64, ..., 1024), num_warps=(4, 8))` has ten points. Rules are functions of some
    dimensions by name that return True for points that are permitted:

        space.where(lambda BM, BN, num_warps: BM * BN >= 1024 * num_warps)

    Raises `ArgumentError` for values that no configuration can have.
    """

    def __init__(
        self,
        dimensions: Mapping[str, Iterable[Any]] | None = None,
        /,
        *,
        per_tile: bool = False,
        **named: Iterable[Any],
    ) -> None:
        """The dimensions by name, as a dict or as keyword arguments.

        per_tile: options that are read from the kernel have values for each dot and access.
        """
        self.per_tile = per_tile
        listed = {**({} if dimensions is None else dimensions), **named}
        self.dimensions = tuple(
            Dimension(name, expand(name, values)) for name, values in listed.items()
        )
        self.rules: tuple[Rule, ...] = ()

    @classmethod
    def of(
        cls, dimensions: Iterable[Dimension], rules: Iterable[Rule] = (), *, per_tile: bool = False
    ) -> Space:
        """Return the space of these dimensions, of which the first of equal names counts."""
        space = cls(per_tile=per_tile)
        space.dimensions = tuple({d.name: d for d in reversed(list(dimensions))}.values())[::-1]
        space.rules = tuple(rules)
        return space

    @public_function
    def where(self, rule: Rule) -> Space:
        """Return the space of the points that a rule permits as well."""
        if not callable(rule):
            raise ArgumentTypeError(
                f"where takes a function of dimensions by name, not {short_repr(rule)}: "
                "space.where(lambda BM, num_warps: BM >= 16 * num_warps)"
            )
        unknown = [name for name in _parameters(rule) if name not in self.names]
        if unknown:
            raise ArgumentTypeError(
                f"a rule of where takes {unknown[0]!r}, which is no dimension; there are "
                f"{', '.join(self.names) or 'none'}"
            )
        return Space.of(self.dimensions, (*self.rules, rule), per_tile=self.per_tile)

    @public_function
    def fixed(self, **values: Any) -> Space:
        """Return the space with some dimensions replaced by single values."""
        new = [Dimension(name, expand(name, (value,))) for name, value in values.items()]
        dimensions = [*new, *self.dimensions]
        return Space.of(dimensions, self.rules, per_tile=self.per_tile).ordered(self.names)

    def joined(self, other: Space) -> Space:
        """Return the space of the dimensions of both; those of this one count."""
        dimensions, rules = (*self.dimensions, *other.dimensions), (*self.rules, *other.rules)
        return Space.of(dimensions, rules, per_tile=self.per_tile)

    def ordered(self, names: Sequence[str]) -> Space:
        """Return the same space with its dimensions in the order of `names`; others come last."""
        at = {name: number for number, name in enumerate(names)}
        ordered = sorted(self.dimensions, key=lambda d: at.get(d.name, len(at)))
        return Space.of(ordered, self.rules, per_tile=self.per_tile)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return tuple(dimension.name for dimension in self.dimensions)

    def points(self) -> Iterator[Point]:
        """Yield the points that the rules permit, the last dimension varying fastest."""
        rules = [(rule, _parameters(rule)) for rule in self.rules]
        for values in itertools.product(*(d.values for d in self.dimensions)):
            point = dict(zip(self.names, values, strict=True))
            if all(_permits(rule, names, point) for rule, names in rules):
                yield point

    @property
    def configs(self) -> list[Config]:
        """All configurations.

        Raises `AutotunerError` if there is none, and `ArgumentValueError` for more than 2^20.
        """
        total = 1
        for dimension in self.dimensions:
            total *= len(dimension.values)
        if total > MOST_CONFIGS:
            raise ArgumentValueError(
                f"a space has at most {MOST_CONFIGS} points, and this one has {total}:\n{self}"
            )
        configs = [config_of(point) for point in self.points()]
        if not configs:
            raise AutotunerError(
                f"no configuration satisfies the {len(self.rules)} rules of this space of {total} "
                f"points:\n{self}"
            )
        return configs

    def __iter__(self) -> Iterator[Config]:
        return iter(self.configs)

    def __len__(self) -> int:
        return sum(1 for _ in self.points())

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return "\n".join(map(str, self.dimensions)) or "no dimensions"

    def __repr__(self) -> str:
        return f"<Space of {len(self)} configurations: {', '.join(self.names)}>"


def expand(name: str, values: object) -> tuple[Any, ...]:
    """Return the values of a dimension, with `...` replaced by the powers of two between.

    Raises `ArgumentError`, naming the dimension.
    """
    example = f"{name}=(32, ..., 128)"
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ArgumentTypeError(
            f"the dimension {name} is a sequence of values, not {short_repr(values)}: {example}"
        )
    listed = list(values)
    if not listed:
        raise ArgumentValueError(f"the dimension {name} has no values: {example}")
    expanded: list[Any] = []
    for at, value in enumerate(listed):
        if value is not Ellipsis:
            expanded.append(value)
            continue
        ends = listed[at - 1 : at] + listed[at + 1 : at + 2]
        if len(ends) < 2 or not all(map(_is_power, ends)) or ends[0] >= ends[1]:
            raise ArgumentValueError(
                f"... in the dimension {name} stands between two powers of two, the smaller one "
                f"first, not in {short_repr(tuple(listed))}: {example}"
            )
        expanded += [1 << bit for bit in range(ends[0].bit_length(), ends[1].bit_length() - 1)]
    try:
        return tuple(dict.fromkeys(expanded))
    except TypeError as error:
        raise ArgumentTypeError(
            f"the values of the dimension {name} are hashable constants, not {short_repr(expanded)}"
        ) from error


def _is_power(value: object) -> bool:
    return isinstance(value, int) and value > 0 and value & (value - 1) == 0


def config_of(point: Mapping[str, Any]) -> Config:
    """Return the configuration of a point."""
    options = {name: value for name, value in point.items() if name in OPTION_FIELDS}
    tiles = {name: value for name, value in point.items() if TILE_DIMENSION.fullmatch(name)}
    rest = {n: value for n, value in point.items() if n not in options and n not in tiles}
    return Config(rest | ({"tile_sizes": _joined(tiles)} if tiles else {}), **options)


def _joined(tiles: Point) -> str:
    """Return the option `tile_sizes` for sizes of tiles by the names of dimensions."""
    parts: dict[str, str] = {}
    for dimension, value in sorted(tiles.items()):  # `dot0_thread` comes before `dot0_warps`
        name, _, kind = dimension.partition("_")
        parts[name] = parts.get(name, f"{name}:") + (f"@{value}" if kind == "warps" else str(value))
    return "+".join(parts.values())


def point_of(config: Config) -> Point:
    """Return the values of a configuration by name, sizes of tiles as numbers."""
    point = config.all_kwargs()
    text = point.pop("tile_sizes", "")
    for name, size in parse_tile_sizes(text).sizes if text else ():
        point |= {f"{name}_{field}": value for field, value in asdict(size).items() if value}
    return point


def _parameters(rule: Rule) -> tuple[str, ...]:
    code = getattr(rule, "__code__", None)
    if code is None:
        raise ArgumentTypeError(
            f"a rule of a space is a Python function with named parameters, not {short_repr(rule)}"
        )
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names


def _permits(rule: Rule, names: Sequence[str], point: Point) -> bool:
    with user_code(f"a rule of a space, on {point},"):
        return bool(rule(**{name: point[name] for name in names}))
