"""The signature debugger: what fits, what was changed, and which mistake computes what somebody's code computed."""

import base64
import hashlib
import hmac
import json

import pytest

from deliveries import sign
from deliveries.endpoint_tests import verify

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
BODY = '{"id":"evt_1","data":{"amount":10.0,"name":"Zoë"}}'
NOW = 1_700_000_000
SCHEMES = ["timestamped", "standard"]


def headers(scheme: str, *, secrets: list[str] | None = None, timestamp: int = NOW) -> str:
    signature = sign.signature(
        scheme=scheme, secrets=secrets or [SECRET], event_id="evt_1", timestamp=timestamp, body=BODY.encode()
    )
    return f"Webhook-Id: evt_1\nWebhook-Timestamp: {timestamp}\nWebhook-Signature: {signature}"


def title(scheme: str = "timestamped", *, body: str = BODY, secret: str = SECRET, **given: object) -> str:
    return explain(scheme, body=body, secret=secret, **given).title


def explain(
    scheme: str = "timestamped", *, body: str = BODY, secret: str = SECRET, **given: object
) -> verify.Explanation:
    options: dict[str, object] = {"headers": headers(scheme), "now": NOW, **given}
    return verify.explain(body=body, secret=secret, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_fits_verifies_in_either_scheme_and_during_a_rotation(scheme: str) -> None:
    assert explain(scheme).sound
    assert explain(scheme, headers=headers(scheme, secrets=[OTHER, SECRET])).sound
    assert "fresh" in explain(scheme).text
    assert "60 minutes" in explain(scheme, now=NOW + 3600).text


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"secret": f" {SECRET}\n"}, "white space around it"),
        ({"body": BODY + "\r\n"}, "white space around it that was not sent"),
        ({"body": json.dumps(json.loads(BODY))}, "parsed and written again"),
        ({"body": json.dumps(json.loads(BODY), indent=2)}, "parsed and written again"),
    ],
)
def test_what_was_changed_on_the_way_is_named(scheme: str, change: dict[str, str], words: str) -> None:
    found = explain(scheme, **change)
    assert (found.sound, words in found.text) == (False, True)


def test_a_secret_without_its_front_is_named() -> None:
    assert "lacks its whsec_" in explain(secret=SECRET.removeprefix("whsec_")).text


def test_a_wrong_secret_is_told_from_a_changed_body_where_the_endpoint_is_known() -> None:
    assert title(secret=OTHER, own_secrets=[SECRET]) == "The wrong secret"
    assert title(secret=OTHER) == "These do not belong together"
    assert title(body='{"id":"evt_2"}', secret=SECRET, own_secrets=[SECRET]) == "These do not belong together"
    assert title(secret="", own_secrets=[OTHER, SECRET]) == "It verifies"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no webhook-signature"),
        ("Webhook-Signature: t=1", "cut short"),
        ("Webhook-Signature: sha256=abc", "not one of ours"),
        ("Webhook-Signature: v1,abc", "paste both"),
    ],
)
def test_headers_that_are_not_complete_are_named(text: str, words: str) -> None:
    assert words in explain(headers=text).text


def test_headers_are_read_as_frameworks_show_them() -> None:
    shown = headers("standard").replace("Webhook-", "HTTP_WEBHOOK_").replace("Id", "ID")
    assert explain("standard", headers=shown).sound


def digest(key: bytes, message: str) -> hmac.HMAC:
    return hmac.new(key, message.encode(), hashlib.sha256)


def in_base64(found: hmac.HMAC) -> str:
    return base64.b64encode(found.digest()).decode()


WHOLE, DECODED = SECRET.encode(), b"k" * 32
REWRITTEN = json.dumps(json.loads(BODY))
MISTAKES = [
    ("timestamped", digest(WHOLE, BODY).hexdigest(), "only the body is signed"),
    ("timestamped", digest(WHOLE, f"{NOW}{BODY}").hexdigest(), "the dot after the timestamp"),
    ("timestamped", digest(WHOLE, f"evt_1.{NOW}.{BODY}").hexdigest(), "signs <timestamp>.<body>"),
    ("timestamped", digest(DECODED, f"{NOW}.{BODY}").hexdigest(), "the key is the decoded secret"),
    ("timestamped", digest(WHOLE[6:], f"{NOW}.{BODY}").hexdigest(), "without its whsec_"),
    ("timestamped", in_base64(digest(WHOLE, f"{NOW}.{BODY}")), "written in base64"),
    ("timestamped", digest(WHOLE, f"{NOW}.{REWRITTEN}").hexdigest(), "parsed and written again"),
    ("timestamped", digest(WHOLE, f"{NOW}.{BODY}\n").hexdigest(), "a line break at its end"),
    ("standard", in_base64(digest(WHOLE, f"evt_1.{NOW}.{BODY}")), "decodes the base64"),
    ("standard", in_base64(digest(WHOLE[6:], f"evt_1.{NOW}.{BODY}")), "not decoded"),
    ("standard", in_base64(digest(DECODED, f"{NOW}.{BODY}")), "signs <id>.<timestamp>.<body>"),
    ("standard", digest(DECODED, f"evt_1.{NOW}.{BODY}").hexdigest(), "written in hex"),
]


@pytest.mark.parametrize(("scheme", "computed", "words"), MISTAKES)
def test_the_mistake_that_computes_exactly_this_is_named(scheme: str, computed: str, words: str) -> None:
    found = explain(scheme, computed=computed)
    assert (found.title, words in found.text) == ("Found it", True)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_code_that_is_right_is_told_so_and_what_is_unknown_is_not_guessed(scheme: str) -> None:
    right = sign.signature(scheme=scheme, secrets=[SECRET], event_id="evt_1", timestamp=NOW, body=BODY.encode())
    assert title(scheme, computed=right.split("," if scheme == "timestamped" else " ")[-1]) == "Your code is right"
    assert title(scheme, computed="nonsense") == "It verifies"
