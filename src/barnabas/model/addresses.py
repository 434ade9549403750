"""IP addresses as Java prints them: the text that ACLs, quotas and audit lines compare."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def host_text(host: str) -> str:
    """Give a peer's address as Java's getHostAddress() does; other text is given back as it is.

    IPv6 is written out without `::` (`0:0:0:0:0:0:0:1`), and IPv4 that came in by an IPv6 socket as IPv4, so that an
    ACL made for Kafka matches the same hosts here.
    """
    bare, percent, scope = host.partition("%")
    try:
        address = ip_address(bare)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    return _ipv6_text(address) + percent + scope


def is_address(host: str) -> bool:
    """Say whether the text is an IP address, in whatever spelling."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _ipv6_text(address: IPv6Address) -> str:
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    return ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))
