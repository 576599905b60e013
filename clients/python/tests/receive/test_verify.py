"""verify: both schemes, several secrets, and the classic mistakes by name."""

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from webhooks_client.receive import VerificationError, sign, verify
from webhooks_client.receive.verify import Scheme

NOW = 1_700_000_000
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of 32 bytes......").decode()
BODY = '{"id":"evt_1","type":"invoice.paid","data":{"total":10.0,"name":"Zoë"},"sequence":3}'.encode()
SCHEMES: list[Scheme] = ["timestamped", "standard"]

both_schemes = pytest.mark.parametrize("scheme", SCHEMES)


def signed(body: bytes = BODY, *, secret: str = SECRET, scheme: Scheme = "timestamped", age: int = 0) -> dict[str, str]:
    return sign(body, secret=secret, event_id="evt_1", timestamp=NOW - age, scheme=scheme)


def failure(body: bytes, headers: dict[str, str], secrets: Any = SECRET, **options: Any) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        verify(body, headers, secrets, now=NOW, **options)
    return caught.value


@both_schemes
def test_a_genuine_request_is_its_event(scheme: Scheme) -> None:
    event = verify(BODY, {**signed(scheme=scheme), "webhook-attempt": "4"}, SECRET, now=NOW)
    assert (event.id, event.type, event.sequence, event.attempt) == ("evt_1", "invoice.paid", 3, 4)
    assert event.data == {"total": 10.0, "name": "Zoë"}


def test_the_timestamped_scheme_is_what_the_documents_describe() -> None:
    digest = hmac.new(SECRET.encode(), f"{NOW}.".encode() + BODY, hashlib.sha256).hexdigest()
    assert signed()["webhook-signature"] == f"t={NOW},v1={digest}"


def test_the_published_vector_of_standard_webhooks() -> None:
    headers = sign(
        b'{"test": 2432232314}',
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        event_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        scheme="standard",
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    # Its body is no event of ours, which is found out only after the signature was right.
    with pytest.raises(VerificationError) as caught:
        verify(b'{"test": 2432232314}', headers, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", now=1614265330)
    assert caught.value.reason == "no_event"


@both_schemes
def test_any_of_several_secrets_and_any_of_several_signatures_will_do(scheme: Scheme) -> None:
    new, old = signed(secret=OTHER, scheme=scheme), signed(scheme=scheme)
    assert verify(BODY, old, [OTHER, SECRET], now=NOW).id == "evt_1"
    rotating = f"{new['webhook-signature']},{old['webhook-signature'].split(',')[1]}"
    if scheme == "standard":
        rotating = f"{new['webhook-signature']} {old['webhook-signature']}"
    assert verify(BODY, {**old, "webhook-signature": rotating}, SECRET, now=NOW).id == "evt_1"
    assert verify(BODY, {**old, "webhook-signature": rotating}, OTHER, now=NOW).id == "evt_1"


def test_header_names_come_in_any_spelling() -> None:
    for respell in (str.title, str.upper, lambda name: "HTTP_" + name.upper().replace("-", "_")):
        assert verify(BODY, {respell(name): value for name, value in signed().items()}, SECRET, now=NOW).id == "evt_1"


@both_schemes
@pytest.mark.parametrize("age", [300, -300, 0])
def test_five_minutes_are_fresh(scheme: Scheme, age: int) -> None:
    assert verify(BODY, signed(scheme=scheme, age=age), SECRET, now=NOW).id == "evt_1"


@both_schemes
def test_older_ones_are_recorded_and_played_again(scheme: Scheme) -> None:
    error = failure(BODY, signed(scheme=scheme, age=301))
    assert (error.reason, str(error)) == ("wrong_time", "The signature is right, but its time is 301 s old.")
    error = failure(BODY, signed(scheme=scheme, age=-301))
    assert "in the future: is the clock right?" in str(error)
    assert verify(BODY, signed(scheme=scheme, age=301), SECRET, 600, now=NOW).id == "evt_1"


@both_schemes
def test_a_changed_body_is_refused(scheme: Scheme) -> None:
    error = failure(BODY.replace(b"10.0", b"99.0"), signed(scheme=scheme))
    assert error.reason == "wrong_signature"
    assert "another secret" in error.explain()


@both_schemes
def test_a_changed_time_is_refused(scheme: Scheme) -> None:
    headers = {name: value.replace(str(NOW - 900), str(NOW)) for name, value in signed(scheme=scheme, age=900).items()}
    assert failure(BODY, headers).reason == "wrong_signature"


@both_schemes
def test_the_wrong_secret_is_named(scheme: Scheme) -> None:
    error = failure(BODY, signed(scheme=scheme), OTHER)
    assert error.explain().endswith(
        "It was signed with another secret (rotated away? another endpoint's?), or changed on the way."
    )


@both_schemes
@pytest.mark.parametrize(
    "rewritten", [lambda body: json.dumps(json.loads(body)).encode(), lambda body: b" " + body + b"\n"]
)
def test_a_body_that_was_written_again_is_named(scheme: Scheme, rewritten: Any) -> None:
    # What the sender sent is compact; what the receiver verified went through its parser.
    sent = json.dumps(json.loads(BODY), ensure_ascii=False, separators=(",", ":")).encode()
    error = failure(rewritten(sent), signed(sent, scheme=scheme))
    assert error.reason == "wrong_signature"
    assert "parsed and written again" in error.explain() or "white space around it" in error.explain()


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (f" {SECRET}\n", "the secret has white space around it"),
        (SECRET.removeprefix("whsec_"), "the secret lacks its whsec_ at the front"),
    ],
)
def test_a_secret_that_was_copied_badly_is_named(secret: str, words: str) -> None:
    assert words in failure(BODY, signed(), secret).explain()


def test_a_secret_that_never_had_the_prefix_is_named() -> None:
    assert (
        "a whsec_ at the front that is not part of it" in failure(BODY, signed(secret="plain"), "whsec_plain").explain()
    )


def test_a_receiver_with_the_other_schemes_key_is_named() -> None:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = hmac.new(key, f"{NOW}.".encode() + BODY, hashlib.sha256).hexdigest()
    error = failure(BODY, {"webhook-signature": f"t={NOW},v1={digest}", "webhook-id": "evt_1"})
    assert "the sender's key is the decoded secret" in error.explain()


def test_a_signature_in_the_other_schemes_form_is_named() -> None:
    digest = base64.b64decode(signed(scheme="standard")["webhook-signature"].removeprefix("v1,"))
    headers = {**signed(), "webhook-signature": f"t={NOW},v1={digest.hex()}"}
    assert "is written as timestamped, but was made as standard" in failure(BODY, headers).explain()


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"webhook-signature": ""}, "missing_header", "no webhook-signature header"),
        ({"webhook-signature": f"t={NOW}"}, "bad_header", "cut short"),
        ({"webhook-signature": "t=,v1=00"}, "bad_header", "cut short"),
        ({"webhook-signature": "t=²,v1=00"}, "bad_header", "cut short"),
        ({"webhook-signature": "t=" + "9" * 5000 + ",v1=00"}, "bad_header", "cut short"),
        ({"webhook-signature": "sha256=00"}, "bad_header", "no v1 signature"),
        ({"webhook-signature": f"t={NOW},v1=é\x00"}, "wrong_signature", "No signature"),
        ({"webhook-signature": "v1,AAAA", "webhook-id": ""}, "missing_header", "also signs webhook-id"),
        ({"webhook-signature": "v1,AAAA", "webhook-timestamp": "x"}, "bad_header", "no number of seconds"),
    ],
)
def test_headers_that_are_not_whole_are_named(change: dict[str, str], reason: str, words: str) -> None:
    error = failure(BODY, {**signed(), **change})
    assert error.reason == reason
    assert words in str(error)


@pytest.mark.parametrize("secrets", ["", [], ["", ""]])
def test_without_a_secret_nothing_verifies(secrets: Any) -> None:
    assert failure(BODY, signed(), secrets).reason == "no_secret"


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!!"])
def test_an_empty_or_unreadable_standard_secret_signs_nothing(secret: str) -> None:
    digest = base64.b64encode(hmac.digest(b"", f"evt_1.{NOW}.".encode() + BODY, "sha256")).decode()
    headers = {**signed(scheme="standard"), "webhook-signature": f"v1,{digest}"}
    assert failure(BODY, headers, secret).reason == "wrong_signature"


def test_text_in_place_of_bytes_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="raw bytes"):
        verify(BODY.decode(), signed(), SECRET)  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"no json", b"[]", b'"text"', b"{}", b'{"id":1,"type":"a"}', b"", b"[" * 100_000])
def test_a_signed_body_that_is_no_event_is_named(body: bytes) -> None:
    assert failure(body, signed(body)).reason == "no_event"


def test_an_id_in_the_header_that_is_not_the_signed_one_is_refused() -> None:
    assert failure(BODY, {**signed(), "webhook-id": "evt_2"}).reason == "no_event"


def test_neither_secrets_nor_bodies_show_in_an_error() -> None:
    error = failure(BODY, signed(), OTHER)
    assert OTHER not in f"{error!r}{error.explain()}{vars(error)}"
