"""Certificate names as text, and mapped to principals; Java is asked for the same."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from barnabas.net.distinguished_name import PrincipalMapper, PrincipalMappingError, format_name
from tests.peers.maven import java, kafka_classpath

SOURCE = Path(__file__).parents[1] / "peers" / "java" / "NamesOracle.java"
UTF8, PRINTABLE, T61, IA5, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1E
CODECS = {UTF8: "utf-8", PRINTABLE: "ascii", T61: "latin-1", IA5: "ascii", BMP: "utf-16-be"}
CN, C, ORG, EMAIL = "2.5.4.3", "2.5.4.6", "2.5.4.10", "1.2.840.113549.1.9.1"
# Those with a keyword in RFC 2253, and as many that have none there.
OIDS: tuple[str, ...] = (CN, C, ORG, EMAIL, "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.11", "0.9.2342.19200300.100.1.25")
OIDS += ("0.9.2342.19200300.100.1.1", "2.5.4.5", "2.5.4.4", "2.5.4.12", "1.3.6.1.4.1.99999.7.300")
VALUES = ("alice", "a b", " a", "a ", "  ", "#1", "a#", "a,b", "a+b=c", '"q"', "<x>;", "b\\s", "x" * 200)
WIDE_VALUES = ("jürgen", "€", "日本", "é ü")
Attribute = tuple[str, int, str]


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    return bytes([tag, 0x81, size] if size < 0x100 else [tag, 0x82, size >> 8, size & 0xFF]) + content


def der_oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    out = b""
    for number in (40 * first + second, *rest):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.insert(0, number & 0x7F | 0x80)
        out += bytes(groups)
    return der(0x06, out)


def der_name(*components: list[Attribute]) -> bytes:
    sets = []
    for component in components:
        pairs = [der(0x30, der_oid(oid), der(tag, value.encode(CODECS[tag]))) for oid, tag, value in component]
        sets.append(der(0x31, *pairs))
    return der(0x30, *sets)


def test_a_usual_name_is_printed_last_component_first() -> None:
    name = der_name([(C, PRINTABLE, "DE")], [(ORG, UTF8, "Example, Inc.")], [(CN, UTF8, "alice")])
    assert format_name(name) == r"CN=alice,O=Example\, Inc.,C=DE"


def test_a_component_of_two_parts_is_joined_by_plus() -> None:
    assert format_name(der_name([(CN, UTF8, "a"), (ORG, UTF8, "b")], [(C, PRINTABLE, "DE")])) == "C=DE,CN=a+O=b"


def test_what_rfc_2253_has_no_word_for_is_printed_as_bytes() -> None:
    assert format_name(der_name([(EMAIL, IA5, "a@b")])) == "1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    "data", [b"", b"0", b"\x30\x05\x31", b"\x31\x00", b"\x30\x02\x31\x80", b"\x30\x84\xff\xff\xff\xff"]
)
def test_rubbish_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        format_name(data)


def random_name(rng: random.Random) -> bytes:
    components = []
    for _ in range(rng.randrange(1, 5)):
        component = []
        for oid in rng.sample(OIDS, rng.choice((1, 1, 1, 2))):
            tag = rng.choice(tuple(CODECS))
            component.append((oid, tag, rng.choice(VALUES + (WIDE_VALUES if tag == UTF8 else ()))))
        components.append(component)
    return der_name(*components)


RULES = (
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^CN=(.*?),.*$/$1/U , RULE:^OU=(.*)$/org-$1/L, DEFAULT",
    "RULE:.*/x/",
    "RULE:CN=(.*)/a$2b$1$10/",
    r"RULE:CN=(.*)/\$1-$1\/x/",
    "RULE:CN=(?<who>.*),O=(?<org>[^,]*)/${org}:${who}/",
    r"RULE:^CN=([^,]+?),.*\/.*$/$1/",
    "RULE:CN=(.*)/$0/",
    "DEFAULTS",
    "RULE:CN=(.*)/$1",
    "rubbish",
    "RULE:^CN=(.*)$/$1/L,RULE:^.*$/nobody/",
)
NAMES = (
    "CN=Alice,OU=ServiceUsers,O=Org,C=US",
    "CN=Alice,OU=Adm,O=Org,L=Town,ST=XX,C=US",
    "OU=Some Unit",
    "CN=bob",
    "CN=bob,O=Ex",
    "CN=Straße,O=a/b",
    "",
)


def ours(rules: str, name: str) -> str:
    try:
        return PrincipalMapper.parse(rules).map(name)
    except PrincipalMappingError:
        return "ERROR"


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("DEFAULT", "CN=Alice,O=Org", "CN=Alice,O=Org"),
        (RULES[2], NAMES[0], "Alice"),
        (RULES[3], NAMES[1], "alice@adm"),
        (RULES[4], "CN=bob,O=Ex", "BOB"),
        (RULES[4], "OU=Some Unit", "org-some unit"),
        (RULES[4], "C=US", "C=US"),
        ("RULE:CN=x/y/", "CN=bob", "ERROR"),
    ],
)
def test_the_first_rule_that_fits_gives_the_name(rules: str, name: str, expected: str) -> None:
    assert ours(rules, name) == expected


@pytest.mark.peer
def test_java_prints_and_kafka_maps_the_same(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    names = [random_name(rng) for _ in range(1500)]
    lines = [f"NAME\t{name.hex()}" for name in names]
    lines += [f"MAP\t{rules}\t{name}" for rules in RULES for name in NAMES]
    expected = [format_name(name) for name in names] + [ours(rules, name) for rules in RULES for name in NAMES]
    subprocess.run(["javac", "-cp", kafka_classpath(), "-d", str(tmp_path), str(SOURCE)], check=True, timeout=120)
    asked = subprocess.run(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", f"{tmp_path}:{kafka_classpath()}", "NamesOracle"],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    answers = asked.stdout.split("\n")[:-1]
    assert len(answers) == len(lines)
    different = [row for row in zip(lines, answers, expected, strict=True) if row[1] != row[2]]
    assert not different, f"seed {seed}: {len(different)} differ, the first: {different[0]}"
