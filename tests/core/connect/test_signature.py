"""Signed requests between workers: what is accepted, and what is refused with which status."""

from __future__ import annotations

import ast
import base64
import inspect

import pytest

from barnabas.core.connect.session_keys import SessionKey
from barnabas.core.connect.signature import ALGORITHM_HEADER, SIGNATURE_HEADER, InternalRequestError, sign, verify

BODY = b'[{"a": "1"}]'
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1)
OTHER = SessionKey(b"o" * 32, "HmacSHA256", 2)
PERMITTED = ("HmacSHA256", "HmacSHA512")


def _refusal(headers: dict[str, str], body: bytes = BODY, key: SessionKey | None = KEY) -> InternalRequestError:
    with pytest.raises(InternalRequestError) as refused:
        verify(headers, body, key, PERMITTED)
    return refused.value


@pytest.mark.requirement("C-16", "C-17")
@pytest.mark.parametrize("algorithm", PERMITTED)
def test_what_was_signed_with_the_newest_key_is_accepted(algorithm: str) -> None:
    headers = sign(BODY, KEY, algorithm)
    assert set(headers) == {"X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm"}
    verify(headers, BODY, KEY, PERMITTED)


@pytest.mark.requirement("C-18")
@pytest.mark.parametrize("missing", [SIGNATURE_HEADER, ALGORITHM_HEADER])
def test_a_request_without_one_of_the_headers_is_400(missing: str) -> None:
    headers = sign(BODY, KEY, "HmacSHA256")
    del headers[missing]
    assert _refusal(headers).status == 400


@pytest.mark.requirement("C-19")
@pytest.mark.parametrize("signature", ["!", "abc", "a b=", "ä"])
def test_a_signature_that_is_not_base64_is_400(signature: str) -> None:
    assert _refusal(sign(BODY, KEY, "HmacSHA256") | {SIGNATURE_HEADER: signature}).status == 400


@pytest.mark.requirement("C-20")
@pytest.mark.parametrize("algorithm", ["HmacSHA489", "HmacMD5", "hmacsha256", ""])
def test_an_algorithm_that_is_not_permitted_is_400_and_the_remedy_is_named(algorithm: str) -> None:
    refused = _refusal(sign(BODY, KEY, "HmacSHA256") | {ALGORITHM_HEADER: algorithm})
    assert refused.status == 400
    for part in (repr(algorithm), "HmacSHA256, HmacSHA512", "inter.worker.verification.algorithms", "restart"):
        assert part in refused.message


@pytest.mark.requirement("C-21", "C-22", "H-26")
def test_a_signature_by_another_key_of_another_body_or_cut_short_is_403() -> None:
    headers = sign(BODY, KEY, "HmacSHA256")
    assert _refusal(sign(BODY, OTHER, "HmacSHA256")).status == 403
    assert _refusal(headers, BODY + b" ").status == 403
    assert _refusal(headers, key=OTHER).status == 403, "signed with the key before"
    cut = base64.b64encode(base64.b64decode(headers[SIGNATURE_HEADER])[:16]).decode()
    assert _refusal(headers | {SIGNATURE_HEADER: cut}).status == 403
    assert _refusal(headers | {SIGNATURE_HEADER: ""}).status == 403


def test_a_worker_without_a_key_answers_503() -> None:
    assert _refusal(sign(BODY, KEY, "HmacSHA256"), key=None).status == 503


@pytest.mark.requirement("C-40")
def test_refusals_tell_nothing_of_the_key() -> None:
    key = SessionKey(b"not-to-be-seen", "HmacSHA256", 1)
    for headers in ({}, sign(BODY, OTHER, "HmacSHA256"), sign(BODY, OTHER, "HmacSHA1")):
        assert "not-to-be-seen" not in _refusal(headers, key=key).message


@pytest.mark.requirement("H-26")
def test_signatures_are_compared_by_what_takes_the_same_time_and_by_nothing_else() -> None:
    code = ast.parse(inspect.getsource(verify))
    calls = [ast.unparse(node.func) for node in ast.walk(code) if isinstance(node, ast.Call)]
    assert calls.count("hmac.compare_digest") == 1
    compared = [node for node in ast.walk(code) if isinstance(node, ast.Compare)]
    assert all(isinstance(op, ast.Is) for node in compared for op in node.ops), "anything else is only about None"
