import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscriptions.guards.headers import RefusedHeader, check_headers


def refusal(headers: dict[str, str]) -> RefusedHeader:
    with pytest.raises(RefusedHeader) as caught:
        check_headers(headers)
    return caught.value


def test_credentials_and_routing_headers_pass() -> None:
    check_headers({"Authorization": "Bearer s3cret", "X-Api-Key": "a b\tc", "x-tenant": "7", "Accept": "text/plain"})
    check_headers({})


@pytest.mark.parametrize(
    "value", ["a\r\nEvil: 1", "a\nb", "a\rb", "a\n", "a\x00b", "a\x0bb", "a\x7fb", "a\x85b", "ä", "😀"]
)
def test_s08_a_value_cannot_add_a_line(value: str) -> None:
    assert refusal({"X-Note": value}).code == "header_value_invalid"


@pytest.mark.parametrize("value", ["", " ", " a", "a ", "\ta", "a" * 1025])
def test_s08_a_value_is_short_and_bare(value: str) -> None:
    assert refusal({"X-Note": value}).code == "header_value_invalid"
    check_headers({"X-Note": "a" * 1024})


@pytest.mark.parametrize(
    "name", ["", "X Note", "X-Note:", "X-Note\n", "X\r\nHost", "X-Nöte", "X(1)", "X\x00", "a" * 65]
)
def test_s08_a_name_is_a_token(name: str) -> None:
    assert refusal({name: "1"}).code == "header_name_invalid"
    check_headers({"a" * 64: "1"})


@pytest.mark.parametrize(
    "name",
    [
        *("Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Webhook-Attempt", "Webhook-Anything"),
        *("Idempotency-Key", "Content-Type", "User-Agent", "Traceparent", "Tracestate"),
        *("Host", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Accept-Encoding"),
        *("Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Proxy-Connection"),
        *("Cookie", "Set-Cookie"),
    ],
)
def test_s08_our_own_and_the_connections_headers_cannot_be_replaced(name: str) -> None:
    for spelling in (name, name.lower(), name.upper(), name.replace("-", "_"), name.replace("-", "_", 1).upper()):
        refused = refusal({spelling: "1"})
        assert (refused.code, refused.name) == ("header_name_reserved", spelling)


def test_s08_a_name_given_twice_in_different_case_is_refused() -> None:
    assert refusal({"X-Key": "1", "x-key": "2"}).code == "header_duplicated"
    assert refusal({"X-Key": "1", "X_Key": "2"}).code == "header_duplicated"


def test_s08_at_most_twenty_headers_are_taken() -> None:
    headers = {f"X-{number}": "1" for number in range(20)}
    check_headers(headers)
    assert refusal({**headers, "X-20": "1"}).code == "too_many_headers"


@given(st.text(st.characters(max_codepoint=0x2FF), min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_s08_what_passes_is_one_line(value: str, name: str) -> None:
    try:
        check_headers({"X-Fixed": value, name: "1"})
    except RefusedHeader:
        return
    assert f"X-Fixed: {value}\r\n{name}: 1\r\n".splitlines() == [f"X-Fixed: {value}", f"{name}: 1"]


def test_s08_a_refusal_does_not_repeat_the_value() -> None:
    assert "s3cret" not in str(refusal({"Authorization": "s3cret\n"}))
