"""Helper functions in OpenCL C: atomic operations as loops around compare-and-swap.

OpenCL 1.2 has atomics on integers of 32 bits, and as an extension of 64. Sums, minima and maxima of
floats compare and swap their bits. Operations on elements of 8 and 16 bits compare and swap the
aligned 32 bits that contain the element; a write of another thread to the rest of them makes the
loop repeat.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.backends.opencl.emit.library import source

_BITWISE = {"and": "old & value", "or": "old | value", "xor": "old ^ value"}


def texts() -> Iterator[str]:
    """Return the helper functions `atomic_KIND_ELEMENT`, one each.

    They take a pointer and a value and return the old value; `cmpxchg` takes the expected value
    before the value. Those of fewer than 32 bits take and return the bits of an element.
    """
    yield from _of_floats("float", "uint", 32, "atomic", "atomic_or(word, 0u)")
    yield from _of_floats("double", "ulong", 64, "atom", "atom_cmpxchg(word, 0UL, 0UL)")
    for bits, unsigned in ((8, "uchar"), (16, "ushort")):
        for element, ty in ((f"i{bits}", unsigned[1:]), (f"u{bits}", unsigned)):
            combined = {
                "add": "old + value",
                "min": f"min(({ty})old, ({ty})value)",
                "max": f"max(({ty})old, ({ty})value)",
            }
            yield from _of_elements(element, unsigned, bits, combined | _BITWISE)
    for element in ("f16", "bf16"):
        numbers = f"{element}_to_f32(old), {element}_to_f32(value)"
        combined = {
            "add": f"f32_to_{element}({numbers.replace(',', ' +')})",
            "min": f"f32_to_{element}(fmin({numbers}))",
            "max": f"f32_to_{element}(fmax({numbers}))",
        }
        yield from _of_elements(element, "ushort", 16, combined)


def _of_floats(ty: str, unsigned: str, bits: int, prefix: str, read: str) -> Iterator[str]:
    """Yield the operations on floats of 32 or 64 bits, of which integer atomics swap the bits."""
    for kind, combined in (
        ("add", f"as_{ty}(before) + value"),
        ("min", f"fmin(as_{ty}(before), value)"),
        ("max", f"fmax(as_{ty}(before), value)"),
    ):
        yield source(
            "atomic_float.cl",
            ty=ty,
            unsigned=unsigned,
            bits=bits,
            prefix=prefix,
            read=read,
            kind=kind,
            combined=combined,
        )


def _of_elements(element: str, carrier: str, bits: int, combined: dict[str, str]) -> Iterator[str]:
    """Yield the operations on an element of 8 or 16 bits; `combined` has those of one value."""
    value = f"{carrier} value"
    for kind, text in {**combined, "xchg": "value"}.items():
        yield _word_loop(element, carrier, bits, kind, value, text)
    parameters = f"{carrier} expected, {value}"
    swapped = "old == expected ? value : old"
    yield _word_loop(element, carrier, bits, "cmpxchg", parameters, swapped)


def _word_loop(
    element: str, carrier: str, bits: int, kind: str, parameters: str, combined: str
) -> str:
    """Return an operation on the 32 bits that contain an element.

    combined: the new element, an expression of `old` and the parameters.
    """
    return source(
        "atomic_narrow.cl",
        element=element,
        carrier=carrier,
        kind=kind,
        parameters=parameters,
        combined=combined,
        last=4 - bits // 8,
        mask=f"{(1 << bits) - 1:#x}",
    )
