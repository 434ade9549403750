"""Numbers as Java prints them, where what we show must read like Kafka's."""

from __future__ import annotations

from decimal import Decimal


def java_double(value: float) -> str:
    """Give a finite double as `Double.toString` does: `5.0`, `1.0E7`."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "an infinity is no configuration and no quota"
    mantissa = f"{'-' if sign else ''}{digits[0]}.{''.join(map(str, digits[1:])) or '0'}"
    return f"{mantissa}E{exponent + len(digits) - 1}"
