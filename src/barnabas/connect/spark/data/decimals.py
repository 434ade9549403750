"""Decimals as Connect has them on the wire: the unscaled number, in big-endian two's complement, no byte too many."""

from __future__ import annotations

from typing import Final

from .sql import let

_TWO_64: Final = "18446744073709551616BD"


def bytes_of_decimal(sql: str, scale: int) -> str:
    """Give the SQL of the bytes of a decimal with this scale; null for null."""
    return let(f"cast(translate(format_number({sql}, {scale}), ',.', '') as decimal(38, 0))", _bytes)


def decimal_of_bytes(sql: str, scale: int) -> str:
    """Give the SQL of the decimal with this scale; null for null, for no bytes, and for more than 38 digits."""
    return let(f"hex({sql})", lambda digits: let(_unscaled(digits), lambda whole: _pointed(whole, scale)))


def _bytes(unscaled: str) -> str:
    low = f"({unscaled} % {_TWO_64})"
    negative = f"{low} < 0"
    # div rounds towards zero and % has the dividend's sign; two's complement wants the low half to be positive.
    high = f"({unscaled} div {_TWO_64}) - CASE WHEN {negative} THEN 1 ELSE 0 END"
    positive = f"({low} + CASE WHEN {negative} THEN {_TWO_64} ELSE 0BD END)"
    upper = f"cast({positive} div 4294967296BD as bigint)"
    lower = f"cast({positive} % 4294967296BD as bigint)"
    text = f"concat(lpad(hex({high}), 16, '0'), lpad(hex({upper}), 8, '0'), lpad(hex({lower}), 8, '0'))"
    return f"unhex(regexp_replace({text}, '^(?:(?:00)+(?=[0-7].)|(?:FF)+(?=[89A-F].))', ''))"


def _unscaled(digits: str) -> str:
    """Give the SQL of the text of a whole number from its hexadecimal digits."""
    sign = f"CASE WHEN substring({digits}, 1, 1) >= '8' THEN 'F' ELSE '0' END"
    wide = f"lpad({digits}, 32, {sign})"
    high = f"cast(conv(substring({wide}, 1, 16), 16, -10) as decimal(38, 0))"
    low = f"cast(conv(substring({wide}, 17, 16), 16, 10) as decimal(38, 0))"
    # A negative number goes by way of the smaller product, which has 38 digits where the number has.
    below = f"try_add(try_multiply({high} + 1BD, {_TWO_64}), {low} - {_TWO_64})"
    unscaled = f"CASE WHEN {high} < 0 THEN {below} ELSE try_add(try_multiply({high}, {_TWO_64}), {low}) END"
    return f"CASE WHEN length({digits}) BETWEEN 1 AND 32 THEN cast({unscaled} as string) END"


def _pointed(whole: str, scale: int) -> str:
    """Give the SQL of the decimal; the point is moved in the text, for dividing would cost digits."""
    if scale == 0:
        return f"try_cast({whole} as decimal(38, 0))"
    digits = f"lpad(ltrim('-', {whole}), greatest(length(ltrim('-', {whole})), {scale + 1}), '0')"
    pointed = f"concat(left({digits}, length({digits}) - {scale}), '.', right({digits}, {scale}))"
    return f"try_cast(concat(CASE WHEN {whole} LIKE '-%' THEN '-' ELSE '' END, {pointed}) as decimal(38, {scale}))"
