from __future__ import annotations

import pytest

from barnabas.wire.errors import ApiError, ErrorCode


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_a_text(code: ErrorCode) -> None:
    assert bool(code.message) is (code is not ErrorCode.NONE)


def test_an_error_says_its_own_text_or_the_codes() -> None:
    assert ApiError(ErrorCode.POLICY_VIOLATION, "too many").message == "too many"
    assert ApiError(ErrorCode.REQUEST_TIMED_OUT).message == ErrorCode.REQUEST_TIMED_OUT.message
    assert str(ApiError(ErrorCode.REQUEST_TIMED_OUT)).startswith("REQUEST_TIMED_OUT: ")


@pytest.mark.requirement("A-25")
def test_our_own_code_is_far_from_kafkas() -> None:
    assert ErrorCode.AUTHORIZER_NOT_READY.value == 30801
    assert ErrorCode.AUTHORIZER_NOT_READY.retriable
    assert max(c for c in ErrorCode if c is not ErrorCode.AUTHORIZER_NOT_READY) < 1000
