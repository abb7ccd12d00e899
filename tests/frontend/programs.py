"""Random structured programs as Python text: every nesting of `if`, loops and exits.

All values are small integers. A program keeps to names that surely have a value where it reads them, as
Python sees it: those of one branch where the other has left, for instance. A *loose* program does not: it
may read a name that some path to there did not assign. Loops end by counting.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

ARGUMENTS = ("a", "b", "c")
LEFT = None  # instead of the defined names: this point is not reached


@dataclass
class Writer:
    """Writes one function; every choice is drawn from hypothesis."""

    draw: st.DrawFn
    helper: bool = False  # returns an integer, and neither stores nor has a flag
    callee: str | None = None
    loose: bool = False
    lines: list[str] = field(default_factory=list)
    counter: int = 0
    budget: int = 22

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))

    # -- expressions

    def atom(self, names: frozenset[str]) -> str:
        return self.pick(*sorted(names), str(self.number(-3, 9)))

    def value(self, names: frozenset[str]) -> str:
        form = self.number(0, 8)
        x, y = self.atom(names), self.atom(names)
        if form == 8:
            return x
        if form == 6:
            return f"({x} if {self.condition(names)} else {y})"
        if form == 7 and self.callee is not None:
            return f"{self.callee}({x}, {y}, {self.atom(names)})"
        return f"(({x} {self.pick('+', '-', '*')} {y}) & 63)"

    def condition(self, names: frozenset[str]) -> str:
        def compare() -> str:
            return f"{self.pick(*sorted(names))} {self.pick('<', '>', '==', '!=', '<=')} {self.atom(names)}"

        form = self.number(0, 5)
        if form == 0:
            return f"{compare()} {self.pick('and', 'or')} {compare()}"
        if form == 1:
            return f"not {compare()}"
        if form == 2:
            return f"{self.number(-2, 4)} < {self.pick(*sorted(names))} <= {self.atom(names)}"
        return compare()

    # -- statements; each gives the names defined after it, or LEFT

    def block(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str] | None:
        for _ in range(self.number(1, 4)):
            after = self.statement(depth, names, loop)
            if after is LEFT:
                if self.number(0, 3) == 0:
                    self.put(depth, f"v0 = {self.atom(names)}  # never reached")
                return LEFT
            names = after
        return names

    def statement(
        self, depth: int, names: frozenset[str], loop: str | None
    ) -> frozenset[str] | None:
        self.budget -= 1
        choices = ["assign", "assign", "augment"] + ["store"] * (not self.helper)
        if self.budget > 0 and depth < 6:
            choices += ["if", "if", "if", "for", "while", "static", "forever"]
        if loop is not None:
            choices += ["break", "continue"]
        choices += ["return"] if depth > 1 else []
        return getattr(self, self.pick(*choices) + "_")(depth, names, loop)

    def assign_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str]:
        name = self.pick("v0", "v1", "v2", "t0", "t1", "t2")
        self.put(depth, f"{name} = {self.value(names)}")
        return names | {name}

    def augment_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str]:
        name = self.pick("v0", "v1", "v2")
        self.put(depth, f"{name} {self.pick('+', '-')}= {self.atom(names)}")
        self.put(depth, f"{name} &= 63")
        return names

    def store_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str]:
        self.put(depth, f"tl.store(out + {self.number(0, 9)}, {self.value(names)})")
        return names

    def break_(self, depth: int, names: frozenset[str], loop: str | None) -> None:
        self.put(depth, "break")

    def continue_(self, depth: int, names: frozenset[str], loop: str | None) -> None:
        self.put(depth, "continue")

    def return_(self, depth: int, names: frozenset[str], loop: str | None) -> None:
        self.put(depth, f"return {self.value(names)}" if self.helper else "return")

    def if_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str] | None:
        constant = self.pick("0 < 1", "1 < 0") if self.helper else self.pick("FLAG", "not FLAG")
        self.put(depth, f"if {self.pick(self.condition(names), self.condition(names), constant)}:")
        then = self.block(depth + 1, names, loop)
        orelse: frozenset[str] | None = names
        form = self.number(0, 2)
        if form == 1:
            self.put(depth, "else:")
            orelse = self.block(depth + 1, names, loop)
        elif form == 2:
            self.put(depth, f"elif {self.condition(names)}:")
            middle = self.block(depth + 1, names, loop)
            self.put(depth, "else:")
            orelse = self.meet(middle, self.block(depth + 1, names, loop))
        return self.meet(then, orelse)

    def for_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str]:
        index = self.name("i")
        bounds = self.pick(
            str(self.number(0, 4)),
            f"{self.atom(names)} & 3",
            f"{self.number(-2, 1)}, {self.atom(names)} & 3",
            f"0, 7, ({self.atom(names)} & 3) + 1",
            f"{self.atom(names)} & 3, -1, -1",
            f"4, {self.atom(names)} & 3, -2",
        )
        self.put(depth, f"for {index} in {self.pick('range', 'tl.range')}({bounds}):")
        inside = self.block(depth + 1, names | {index}, "for")
        return self.after_loop(names, inside)

    def static_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str]:
        index = self.name("k")
        over = self.pick(
            "tl.static_range(3)", "tl.static_range(1, 3)", "(2, 5)", "tl.static_range(0)"
        )
        self.put(depth, f"for {index} in {over}:")
        inside = self.block(depth + 1, names | {index}, "static")
        return self.after_loop(names, inside)

    def while_(self, depth: int, names: frozenset[str], loop: str | None) -> frozenset[str]:
        count = self.name("n")
        self.put(depth, f"{count} = 0")
        self.put(depth, f"while {count} < {self.number(0, 4)} and ({self.condition(names)}):")
        self.put(depth + 1, f"{count} += 1")
        inside = self.block(depth + 1, names | {count}, "while")
        return self.after_loop(names | {count}, inside)

    def forever_(
        self, depth: int, names: frozenset[str], loop: str | None
    ) -> frozenset[str] | None:
        count = self.name("n")
        leave = "break"
        if depth > 0 and self.number(0, 3) == 0:
            leave = "return 7" if self.helper else "return"
        self.put(depth, f"{count} = 0")
        self.put(depth, "while True:")
        self.put(depth + 1, f"if {count} >= {self.number(0, 3)}:")
        self.put(depth + 2, leave)
        self.put(depth + 1, f"{count} += 1")
        inside = self.block(depth + 1, names | {count}, "while")
        return self.after_loop(names | {count}, inside)

    def after_loop(self, names: frozenset[str], inside: frozenset[str] | None) -> frozenset[str]:
        return names | inside if self.loose and inside is not LEFT else names

    def meet(self, a: frozenset[str] | None, b: frozenset[str] | None) -> frozenset[str] | None:
        """The names defined where two paths meet."""
        if a is LEFT or b is LEFT:
            return a if b is LEFT else b
        return a | b if self.loose else a & b

    def name(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"


def write(
    draw: st.DrawFn, name: str, *, helper: bool, callee: str | None, loose: bool = False
) -> str:
    """One function of three integers; a kernel has `out` and a flag besides."""
    writer = Writer(draw, helper=helper, callee=callee, loose=loose, budget=8 if helper else 22)
    parameters = [*ARGUMENTS] if helper else ["out", *ARGUMENTS, "FLAG: tl.constexpr"]
    writer.put(0, f"def {name}({', '.join(parameters)}):")
    for number, argument in enumerate(ARGUMENTS):
        writer.put(1, f"v{number} = {argument}")
    after = writer.block(1, frozenset({*ARGUMENTS, "v0", "v1", "v2"}), None)
    if after is not LEFT:
        ending(writer, after)
    return "\n".join(writer.lines)


def ending(writer: Writer, names: frozenset[str]) -> None:
    if writer.helper:
        writer.put(1, f"return {writer.value(names)}")
        return
    shown = sorted(names & {"v0", "v1", "v2", "t0", "t1", "t2"})
    for number, name in enumerate(shown):
        writer.put(1, f"tl.store(out + {100 + number}, {name})")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a kernel `kernel(out, a, b, c, FLAG)` and of the function `helper` that it may call."""
    helper = write(draw, "helper", helper=True, callee=None)
    kernel = write(draw, "kernel", helper=False, callee="helper")
    return f"{helper}\n\n\n{kernel}\n"


@st.composite
def loose_programs(draw: st.DrawFn) -> str:
    """The text of a kernel that may read names which have no value."""
    return write(draw, "kernel", helper=False, callee=None, loose=True) + "\n"
