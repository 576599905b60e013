"""deliveries/pump/redact.py: what a receiver echoes of our secrets is neither stored nor shown (S08)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deliveries.pump.redact import looks_secret, redacted
from deliveries.pump.spellings import spellings
from deliveries.send import Answered, Unanswered

TOKEN = 'Bearer s3cret/"token"-0123456789'


def answered(body: bytes, *headers: tuple[str, str], truncated: bool = False) -> Answered:
    return Answered(200, headers, body, truncated, datetime.now(UTC), 1, None)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (TOKEN.encode(), b"[redacted]"),
        (b'got s3cret/"token"-0123456789!', b"got [redacted]!"),
        (b'{"authorization": "Bearer s3cret/\\"token\\"-0123456789"}', b'{"authorization": "[redacted]"}'),
        (b'{"token": "s3cret\\/\\"token\\"-0123456789"}', b'{"token": "[redacted]"}'),
        ("Zoë \xff".encode(), "Zoë \xff".encode()),
        (b"Bearer", b"Bearer"),
    ],
)
def test_a_custom_headers_value_is_taken_out_of_the_body_however_it_is_spelled(body: bytes, kept: bytes) -> None:
    assert redacted(answered(body), [TOKEN]).body == kept  # type: ignore[union-attr]


def test_it_is_taken_out_of_headers_and_errors() -> None:
    sent = redacted(answered(b"", ("X-Echo", f"<{TOKEN}>")), [TOKEN])
    failed = redacted(
        Unanswered("bad_response", f"No HTTP: {TOKEN}", started_at=datetime.now(UTC), duration_ms=1, address=None),
        [TOKEN],
    )

    assert isinstance(sent, Answered)
    assert sent.headers == (("X-Echo", "<[redacted]>"),)
    assert isinstance(failed, Unanswered)
    assert failed.detail == "No HTTP: [redacted]"


def test_a_secret_that_is_cut_off_with_the_body_is_taken_out_as_well() -> None:
    sent = redacted(answered(b"echo whsec_abcdefghij", truncated=True), ["whsec_abcdefghijklmnop"])

    assert isinstance(sent, Answered)
    assert sent.body == b"echo [redacted]"


@pytest.mark.parametrize("length", [6, 7, 20, 32])
def test_the_longest_beginning_is_taken_out_whichever_secret_it_is_of(length: int) -> None:
    secrets = ["s3cret-s3cret-s3cret-s3cret-s3cr", "Bearer tok_0123456789"]
    for secret in secrets:
        sent = redacted(answered(b"echo " + secret[:length].encode(), truncated=True), secrets)
        assert isinstance(sent, Answered)
        assert sent.body == b"echo [redacted]"


def test_a_sentence_is_looked_for_as_a_whole_and_not_by_its_words() -> None:
    sentence = " ".join(f"word-number-{number}" for number in range(100))

    assert len(spellings((sentence,))) == 1
    assert len(spellings((TOKEN,))) == 6
    sent = redacted(answered(f"word-number-7 or {sentence}".encode()), [sentence])
    assert isinstance(sent, Answered)
    assert sent.body == b"word-number-7 or [redacted]"


def test_a_signing_secret_is_noticed_in_headers_and_errors_too() -> None:
    failed = Unanswered("bad_response", "got whsec_abc", started_at=datetime.now(UTC), duration_ms=1, address=None)

    assert looks_secret(answered(b"", ("X-Echo", "key=whsec_abcdef")))
    assert looks_secret(answered(b"key=whsec_abcdef"))
    assert looks_secret(failed)
    assert not looks_secret(answered(b"ok", ("X-Echo", "whsec")))


def test_short_values_are_no_secrets_and_leave_the_answer_alone() -> None:
    sent = redacted(answered(b"tenant 7 is on plan 7"), ["7", "on"])

    assert isinstance(sent, Answered)
    assert sent.body == b"tenant 7 is on plan 7"


@given(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=6, max_size=30),
    st.binary(max_size=60),
    st.binary(max_size=60),
)
def test_no_secret_survives(secret: str, before: bytes, after: bytes) -> None:
    sent = redacted(answered(before + secret.encode() + after), [secret])

    assert isinstance(sent, Answered)
    assert secret.encode() not in sent.body.replace(b"[redacted]", b"\n")
