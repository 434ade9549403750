"""Kerberos names, and the rules that make users of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.sasl.kerberos_names import KerberosName, KerberosNameError, KerberosRuleError, ShortNamer

REALM = "EXAMPLE.COM"


def short(name: str, *rules: str) -> str:
    return ShortNamer.parse(REALM, rules or ("DEFAULT",)).short_name(name)


@pytest.mark.parametrize("name", ["alice", "alice@EXAMPLE.COM", "kafka/host.example.com@EXAMPLE.COM", "/@", "a/b"])
def test_names_are_put_together_again(name: str) -> None:
    assert str(KerberosName.parse(name)) == name


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        (("DEFAULT",), "alice@EXAMPLE.COM", "alice"),
        (("DEFAULT",), "kafka/host@EXAMPLE.COM", "kafka"),
        (("DEFAULT",), "alice", "alice"),
        (("RULE:[1:$1@$0](.*@OTHER.ORG)s/@.*//", "DEFAULT"), "bob@OTHER.ORG", "bob"),
        (("RULE:[2:$1;$2]s/;/-/",), "kafka/host@EXAMPLE.COM", "kafka-host"),
        (("RULE:[1:$1]/U",), "alice@X", "ALICE"),
        (("RULE:[1:$1]s/a/b/g/L",), "AaA@X", "aba"),
        (("RULE:[1:$1](x.*)", "RULE:[1:$1](a.*)s/(.)(.)/$2$1/"), "abc@X", "bac"),
    ],
)
def test_the_first_rule_that_applies_gives_the_user(rules: tuple[str, ...], name: str, user: str) -> None:
    assert short(name, *rules) == user


@pytest.mark.parametrize(
    ("rules", "name", "said"),
    [
        (("DEFAULT",), "alice@OTHER.ORG", r"no rule .* applies to 'alice@OTHER.ORG'; the default realm is EXAMPLE.COM"),
        (("DEFAULT",), "a/b/c@EXAMPLE.COM", "is not a Kerberos name of one or two components"),
        (("RULE:[1:$1@$0]",), "alice@X", "gives 'alice@X', and no user may have / or @"),
        (("RULE:[1:$2]",), "alice@X", r"only \$0 to \$1"),
        (("RULE:[1:$1]s/a/$1/",), "alice@X", "there is no group 1"),
    ],
)
def test_whoever_has_no_user_is_told_why(rules: tuple[str, ...], name: str, said: str) -> None:
    with pytest.raises(KerberosNameError, match=said):
        short(name, *rules)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("default", "is not a rule; want DEFAULT or RULE:"),
        ("DEFAULT/L", "'/L' at its end is not part of a rule"),
        ("RULE:[:$1]", r"number of components, as in \[1:\$1\]"),
        ("RULE:[1:$1](a[)", "ends too soon"),
        ("RULE:[1:$1]s/a{/b/", "begins no count"),
        ("RULE:[1:$1]s/[a&&b]/b/", "not followed here"),
    ],
)
def test_a_rule_that_cannot_be_read_is_named(rule: str, said: str) -> None:
    with pytest.raises(KerberosRuleError, match=said):
        short("alice@X", rule)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("RULE:[1:$2]", r"there are only \$0 to \$1"),
        ("RULE:[1:$]", "is none of"),
        ("RULE:[3:$1]", "no name has 3 components"),
        ("RULE:[1:$1]s/a/$1/", "there is no group 1, only 0"),
        ("RULE:[1:$1]s/a/${b}/", "there is no group b"),
    ],
)
def test_a_rule_that_can_only_fail_is_found_before_anybody_comes(rule: str, said: str) -> None:
    assert [p for p in ShortNamer.parse(REALM, ("DEFAULT", rule)).problems if said.replace("\\", "") in p]


def test_sound_rules_have_no_problems() -> None:
    rules = ("RULE:[2:$1@$0](.*@X)s/(a)(?<b>c)/$2${b}\\$/g/L", "RULE:[1:$1]s/@.*//", "DEFAULT")
    assert ShortNamer.parse(REALM, rules).problems == []


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="RULE:[]12$()s/g.*\\aL{}^|?DFT@", max_size=30), st.text(alphabet="ab/@X.\n", max_size=12))
def test_whatever_stands_there_is_read_or_refused(text: str, name: str) -> None:
    for rule in (text, f"RULE:[1:$1]({text})", f"RULE:[1:$1]s/{text}/", f"RULE:[1:$1]s/a/{text}/"):
        try:
            namer = ShortNamer.parse("X", (rule,))
            assert all(namer.problems)
            assert "/" not in namer.short_name(name) or "@" not in name
        except (KerberosRuleError, KerberosNameError):
            continue
