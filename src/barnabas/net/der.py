"""As much of ASN.1 DER as key stores and certificate names need: nested (tag, content) pairs."""

from __future__ import annotations

from collections.abc import Iterator

OCTET_STRING = 0x04
OBJECT_IDENTIFIER = 0x06
SEQUENCE = 0x30
SET = 0x31


def elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Give (tag, content, whole element) one after the other; ValueError when `data` is not DER."""
    at = 0
    while at < len(data):
        start = at
        if at + 2 > len(data):
            raise ValueError("DER element is cut off")
        tag, length = data[at], data[at + 1]
        at += 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4 or at + size > len(data):
                raise ValueError("DER length is malformed")
            length = int.from_bytes(data[at : at + size], "big")
            at += size
        if at + length > len(data):
            raise ValueError("DER element is longer than what holds it")
        yield tag, data[at : at + length], data[start : at + length]
        at += length


def one(data: bytes, tag: int) -> bytes:
    """Give the content of the single element in `data`, which must have this tag."""
    found = list(elements(data))
    if len(found) != 1 or found[0][0] != tag:
        raise ValueError(f"want one DER element with tag {tag:#04x}")
    return found[0][1]


def dotted(content: bytes) -> str:
    """Give an object identifier as text, for example 2.5.4.3."""
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    if not numbers or content[-1] & 0x80:
        raise ValueError("malformed object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(str(n) for n in (first, numbers[0] - 40 * first, *numbers[1:]))
