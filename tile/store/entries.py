"""A cache entry, and its file format.

A file begins with a line that names the format and a checksum of all that follows: a line of JSON,
then the parts, one after the other.

    tile-store-1 <sha256>
    {"key": <sha256>, "title": "add for nvptx:sm_90a", "facts": {...}, "parts": {"ptx": 5120}}
    ...

Facts are data (JSON), never pickled objects, so reading an entry runs no code, whoever wrote it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

FORMAT = b"tile-store-1"


class DamagedEntryError(Exception):
    """The bytes are not a whole entry, or are the entry of another key."""


@dataclass(frozen=True)
class Entry:
    """The content of a cache entry.

    title: a description for people.
    facts: metadata, of JSON types (numbers, text, lists, dictionaries by text).
    parts: texts or binaries by name.
    """

    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, bytes] = field(default_factory=dict)


def digest(key: str) -> str:
    """Return the SHA-256 of a key, as 64 hexadecimal digits."""
    return hashlib.sha256(key.encode()).hexdigest()


def pack(key: str, entry: Entry) -> bytes:
    """Return the bytes of an entry's file. Raises `TypeError` for facts that are not JSON."""
    head = {
        "key": digest(key),
        "title": entry.title,
        "facts": entry.facts,
        "parts": {name: len(part) for name, part in entry.parts.items()},
    }
    body = b"\n".join([json.dumps(head).encode(), b"".join(entry.parts.values())])
    return b"%s %s\n%s" % (FORMAT, hashlib.sha256(body).hexdigest().encode(), body)


def unpack(key: str, data: bytes) -> Entry:
    """Return the entry of a file's bytes. Raises `DamagedEntryError`."""
    first, _, body = data.partition(b"\n")
    if first != b"%s %s" % (FORMAT, hashlib.sha256(body).hexdigest().encode()):
        raise DamagedEntryError("its checksum is wrong")
    line, _, rest = body.partition(b"\n")
    head = json.loads(line)
    if head["key"] != digest(key):
        raise DamagedEntryError("it is another entry's")
    parts, start = {}, 0
    for name, size in head["parts"].items():
        parts[name] = rest[start : start + size]
        start += size
    return Entry(head["title"], head["facts"], parts)


def title(data: bytes) -> str:
    """Return the title in the first lines of a file; "" if they are not those of an entry.

    For listings: checks no checksum. The beginning of a file is enough if it has both lines.
    """
    first, _, body = data.partition(b"\n")
    if not first.startswith(FORMAT):
        return ""
    try:
        return str(json.loads(body.partition(b"\n")[0])["title"])
    except (ValueError, KeyError, TypeError):
        return ""
