"""A minimal `ld` for the object files that PoCL compiles, on machines without a linker.

    python pocl_linker.py -shared -o kernel.so kernel.so.o [other arguments are ignored]

PoCL compiles each kernel to an object file and calls `ld` to make a shared library; without `ld`,
or without the libraries of a C compiler, it ends the process. This linker makes a library with one
code segment and one data segment of one x86-64 object file. It handles the relocations of
position-independent code; external functions (`memcpy`) are called through a global offset table
that the loader fills in. File layouts follow the System V ABI, "Object Files" and "Program Loading
and Dynamic Linking", and its AMD64 supplement.

It imports only the standard library, since PoCL starts it as a program.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 0x1000
LIBRARIES = ("libc.so.6", "libm.so.6")
# Section flags; section types; special section indices of symbols; relocation types in objects, and
# those that are left to the loader.
WRITE, ALLOC = 1, 2
NOBITS, RELA, SYMTAB = 8, 4, 2
UNDEFINED, COMMON = 0, 0xFFF2
ABSOLUTE, PC32, PLT32, GOTPCREL, GOTPCRELX, REX_GOTPCRELX, PC64 = 1, 2, 4, 9, 41, 42, 24
GLOB_DAT, RELATIVE = 6, 8
_SYMBOL, _RELOCATION = struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_SECTION, _SEGMENT = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IIQQQQQQ")


class LinkError(Exception):
    """An object file that this linker cannot link."""


@dataclass
class Section:
    """A section of the object file, and its address in the library."""

    name: str
    kind: int
    flags: int
    data: bytes
    size: int
    link: int
    info: int
    align: int
    address: int = 0


@dataclass
class Symbol:
    """A symbol of the object file."""

    name: str
    info: int
    section: int
    value: int
    size: int

    @property
    def is_global(self) -> bool:
        return self.info >> 4 != 0


@dataclass
class Image:
    """Bytes that begin at an address."""

    start: int
    data: bytearray = field(default_factory=bytearray)

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def add(self, data: bytes, align: int = 8) -> int:
        """Append data and return its address."""
        self.data += bytes(-self.end % max(align, 1))
        address = self.end
        self.data += data
        return address

    def patch(self, address: int, data: bytes) -> None:
        """Overwrite the bytes at an address."""
        offset = address - self.start
        self.data[offset : offset + len(data)] = data


def read(data: bytes) -> tuple[list[Section], list[Symbol]]:
    """Return the sections and symbols of an x86-64 object file.

    Raises `LinkError` for other files.
    """
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", data, 16) != (1, 62):
        raise LinkError("not an object file for x86-64")
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [_SECTION.unpack_from(data, table + 64 * i) for i in range(count)]
    strings = headers[names][4]
    sections = []
    for name, kind, flags, _, offset, size, link, info, align, _ in headers:
        content = b"" if kind == NOBITS else data[offset : offset + size]
        sections.append(
            Section(_string(data, strings + name), kind, flags, content, size, link, info, align)
        )
    symbol_table = next((s for s in sections if s.kind == SYMTAB), None)
    if symbol_table is None:
        raise LinkError("no symbols")
    names_of_symbols = sections[symbol_table.link].data
    symbols = [
        Symbol(_string(names_of_symbols, name), info, section, value, size)
        for name, info, _, section, value, size in _SYMBOL.iter_unpack(symbol_table.data)
    ]
    return sections, symbols


def _string(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


class Library:
    """A shared library under construction."""

    def __init__(self, sections: list[Section], symbols: list[Symbol]) -> None:
        self.sections, self.symbols = sections, symbols
        loaded = [s for s in sections if s.flags & ALLOC and s.name != ".eh_frame"]
        self.code = Image(0, bytearray(64 + 4 * _SEGMENT.size))
        for section in loaded:
            if not section.flags & WRITE:
                section.address = self.code.add(section.data, section.align)
        self.stubs: dict[int, int] = {}
        called = {i for _, _, i, kind in self._relocations() if self._is_external_call(i, kind)}
        for index in sorted(called):
            self.stubs[index] = self.code.add(bytes(6))
        self.exports = [s for s in symbols if s.is_global and s.section not in (UNDEFINED, COMMON)]
        self.imports = [s for s in symbols if s.is_global and s.section == UNDEFINED and s.name]
        self._name_symbols()
        # Reserve an upper bound of dynamic relocations: their number is known only in `relocate`.
        most = sum(1 for _ in self._relocations()) + len(symbols)
        self.relocations_at = self.code.add(bytes(_RELOCATION.size * most))
        self.data = Image(-(-self.code.end // PAGE) * PAGE)
        for section in loaded:
            if section.flags & WRITE:
                content = section.data or bytes(section.size)
                section.address = self.data.add(content, section.align)
        self.dynamic: list[tuple[int, int, int]] = []
        self.got: dict[int, int] = {}

    def _relocations(self) -> list[tuple[Section, tuple[int, int], int, int]]:
        """Return the section, (offset, addend), symbol index and type of each relocation."""
        relocations = []
        for table in self.sections:
            section = self.sections[table.info] if table.kind == RELA else None
            if section is None or not section.flags & ALLOC or section.name == ".eh_frame":
                continue
            for offset, info, addend in _RELOCATION.iter_unpack(table.data):
                relocations.append((section, (offset, addend), info >> 32, info & 0xFFFFFFFF))
        return relocations

    def _is_external_call(self, index: int, kind: int) -> bool:
        return kind in (PC32, PLT32) and self.symbols[index].section == UNDEFINED

    def _name_symbols(self) -> None:
        """Add the dynamic string table, symbol table and hash table."""
        names = bytearray(b"\0")
        self.names: dict[str, int] = {}
        for name in (*LIBRARIES, *(s.name for s in (*self.exports, *self.imports))):
            self.names.setdefault(name, len(names))
            names += name.encode() + b"\0"
        self.names_at, self.names_size = self.code.add(bytes(names)), len(names)
        entries = [_SYMBOL.pack(0, 0, 0, 0, 0, 0)]
        for symbol in self.exports:
            address = self.address_of(symbol)
            entries.append(
                _SYMBOL.pack(self.names[symbol.name], symbol.info, 0, 1, address, symbol.size)
            )
        self.number = {s.name: len(entries) + i for i, s in enumerate(self.imports)}
        for symbol in self.imports:
            entries.append(_SYMBOL.pack(self.names[symbol.name], symbol.info, 0, 0, 0, 0))
        self.symbols_at = self.code.add(b"".join(entries))
        count = len(entries)
        # The hash table has one bucket, whose chain goes through all symbols in order.
        chain = [0, *(i + 1 if i + 1 < count else 0 for i in range(1, count))]
        table = [1, count, int(count > 1), *chain]
        self.hash_at = self.code.add(struct.pack(f"<{len(table)}I", *table))

    def address_of(self, symbol: Symbol) -> int:
        """Return the address of a symbol. Raises `LinkError` for one without an address."""
        if symbol.section in (UNDEFINED, COMMON) or symbol.section >= len(self.sections):
            raise LinkError(f"symbol {symbol.name!r} has no address")
        return self.sections[symbol.section].address + symbol.value

    def got_entry(self, index: int) -> int:
        """Return the address of a symbol's entry in the global offset table."""
        if index not in self.got:
            address = self.got[index] = self.data.add(bytes(8))
            self._add_dynamic(address, index, 0, GLOB_DAT)
        return self.got[index]

    def _add_dynamic(self, address: int, index: int, addend: int, kind: int) -> None:
        """Let the loader write the address of a symbol, plus the addend, to `address`."""
        symbol = self.symbols[index]
        if symbol.section == UNDEFINED:
            self.dynamic.append((address, self.number[symbol.name] << 32 | kind, addend))
        else:
            self.dynamic.append((address, RELATIVE, self.address_of(symbol) + addend))

    def relocate(self) -> None:
        """Apply the relocations, and write those that are left to the loader."""
        for section, (offset, addend), index, kind in self._relocations():
            address = section.address + offset
            image = self.data if section.flags & WRITE else self.code
            if kind == ABSOLUTE:
                self._add_dynamic(address, index, addend, ABSOLUTE)
                continue
            if kind in (PC32, PLT32, PC64):
                stub = self.stubs.get(index)
                target = self.address_of(self.symbols[index]) if stub is None else stub
            elif kind in (GOTPCREL, GOTPCRELX, REX_GOTPCRELX):
                target = self.got_entry(index)
            else:
                raise LinkError(f"relocation {kind} in {section.name}")
            form = "<q" if kind == PC64 else "<i"
            image.patch(address, struct.pack(form, target + addend - address))
        for index, stub in self.stubs.items():  # jmp *got_entry(%rip)
            self.code.patch(stub, b"\xff\x25" + struct.pack("<i", self.got_entry(index) - stub - 6))
        self.code.patch(
            self.relocations_at, b"".join(_RELOCATION.pack(*entry) for entry in self.dynamic)
        )

    def write(self) -> bytes:
        """Return the bytes of the library."""
        self.relocate()
        # DT_NEEDED, HASH, STRTAB, SYMTAB, STRSZ, SYMENT, RELA, RELASZ, RELAENT
        tags = [(1, self.names[name]) for name in LIBRARIES]
        tags += [(4, self.hash_at), (5, self.names_at), (6, self.symbols_at)]
        tags += [(10, self.names_size), (11, _SYMBOL.size)]
        if self.dynamic:
            size = _RELOCATION.size * len(self.dynamic)
            tags += [(7, self.relocations_at), (8, size), (9, _RELOCATION.size)]
        packed = b"".join(struct.pack("<QQ", *tag) for tag in (*tags, (0, 0)))
        dynamic = self.data.add(packed, 16)
        code, data = len(self.code.data), len(self.data.data)
        segments = (
            (1, 5, 0, 0, 0, code, code, PAGE),
            (1, 6, self.data.start, self.data.start, self.data.start, data, data, PAGE),
            (2, 6, dynamic, dynamic, dynamic, len(packed), len(packed), 16),
            (0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # a stack that is not executable
        )
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        counts = (64, 56, len(segments), 64, 0, 0)
        head = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, *counts)
        self.code.patch(0, head + b"".join(_SEGMENT.pack(*segment) for segment in segments))
        return (
            bytes(self.code.data) + bytes(self.data.start - self.code.end) + bytes(self.data.data)
        )


def link(data: bytes) -> bytes:
    """Return the shared library of an object file. Raises `LinkError`."""
    return Library(*read(data)).write()


def main(arguments: list[str]) -> int:
    """Link the object file that the arguments of `ld` name; return the exit status."""
    objects = [argument for argument in arguments if argument.endswith(".o")]
    try:
        if len(objects) != 1 or "-o" not in arguments[:-1]:
            raise LinkError(f"it links one object into one library, not {' '.join(arguments)}")
        output = Path(arguments[arguments.index("-o") + 1])
        output.write_bytes(link(Path(objects[0]).read_bytes()))
        output.chmod(0o755)
    except (LinkError, OSError, struct.error, IndexError) as error:
        sys.stderr.write(f"tile's linker: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
