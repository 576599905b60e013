"""deliveries/signing/closures.py: recipes give the same bytes as hand-written code, and vendors' published examples."""

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deliveries import sign
from deliveries.signing.closures import Message, compiled
from subscriptions.signing.ready_made import READY_MADE, STANDARD, TIMESTAMPED
from subscriptions.signing.recipe import Recipe

NEW, OLD = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"n", b"o"))
MESSAGE = Message("evt_1", "invoice.paid", 1_700_000_000, 3, "https://globex.example/hook", b'{"a":1}')
IDS = st.text(st.sampled_from("abcABC019_:@~=+-%s"), min_size=1, max_size=30)


def headers(recipe: Recipe, *secrets: str, message: Message = MESSAGE) -> dict[str, str]:
    return dict(compiled(recipe)(secrets, message))


@pytest.mark.parametrize("scheme", [TIMESTAMPED, STANDARD])
@settings(deadline=None)
@given(body=st.binary(), event_id=IDS, timestamp=st.integers(1, 2**33), two=st.booleans())
def test_the_recipes_of_our_own_schemes_say_what_the_code_written_for_them_says(
    scheme: str, body: bytes, event_id: str, timestamp: int, two: bool
) -> None:
    secrets = (NEW, OLD) if two else (NEW,)
    message = Message(event_id, "any", timestamp, 1, "", body)

    assert headers(READY_MADE[scheme], *secrets, message=message) == {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-attempt": "1",
        "webhook-signature": sign.signature(
            scheme=scheme, secrets=secrets, event_id=event_id, timestamp=timestamp, body=body
        ),
    }


def test_the_example_in_githubs_documentation_gives_its_signature() -> None:
    message = MESSAGE._replace(body=b"Hello, World!")

    assert headers(READY_MADE["github"], "It's a Secret to Everybody", message=message)["x-hub-signature-256"] == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


def test_two_signatures_stand_joined_new_first_or_apart_with_the_old_one_where_it_was() -> None:
    apart = headers(READY_MADE["github"], NEW, OLD)
    alone = [headers(READY_MADE["github"], secret)["x-hub-signature-256"] for secret in (NEW, OLD)]
    joined = headers(READY_MADE["stripe"], NEW, OLD)["stripe-signature"]

    assert [apart["x-hub-signature-256-next"], apart["x-hub-signature-256"]] == alone
    assert joined == "t=1700000000," + ",".join(
        "v1=" + hmac.new(secret.encode(), b'1700000000.{"a":1}', hashlib.sha256).hexdigest() for secret in (NEW, OLD)
    )


def test_one_secret_needs_no_second_header() -> None:
    assert "x-hub-signature-256-next" not in headers(READY_MADE["github"], NEW)


@pytest.mark.parametrize("name", ["sha256", "sha512", "sha1"])
def test_url_id_time_and_text_are_signed_as_the_recipe_says(name: str) -> None:
    recipe = Recipe(signed="100%|{url}|{id}|{timestamp}|{body}|end", hash=name, encoding="base64", prefix="p ")
    said = b'100%|https://globex.example/hook|evt_1|1700000000|{"a":1}|end'
    expected = base64.b64encode(hmac.new(NEW.encode(), said, name).digest()).decode()

    assert headers(recipe, NEW)["webhook-signature"] == f"p {expected}"


def test_headers_go_by_the_recipes_names_or_not_at_all() -> None:
    recipe = Recipe(
        signed="{body}", signature_header="X-Sign", id_header="X-Id", timestamp_header=None, attempt_header="X-Try",
        type_header="X-Topic",
    )  # fmt: skip

    found = headers(recipe, NEW)

    assert found.pop("X-Sign") == hmac.new(NEW.encode(), MESSAGE.body, hashlib.sha256).hexdigest()
    assert found == {"X-Id": "evt_1", "X-Try": "3", "X-Topic": "invoice.paid"}


def test_a_key_is_the_secrets_text_or_what_it_is_the_base64_of() -> None:
    recipe = Recipe(signed="{body}", key="base64")

    assert headers(recipe, NEW)["webhook-signature"] == hmac.new(b"n" * 32, MESSAGE.body, hashlib.sha256).hexdigest()
    assert headers(replace(recipe, key="text"), NEW) != headers(recipe, NEW)


def test_a_request_of_another_scheme_keeps_what_every_request_has() -> None:
    said = sign.headers(
        scheme="github", secrets=[NEW], event_id="evt_1", event_type="invoice.paid", timestamp=1, attempt=2, body=b"{}",
        user_agent="Webhooks", traceparent="00-1", custom=[("x-own", "1")], url="https://globex.example/",
    )  # fmt: skip

    assert [name for name, _ in said] == [
        "content-type", "user-agent", "idempotency-key", "x-hub-signature-256", "x-github-delivery",
        "webhook-timestamp", "webhook-attempt", "x-github-event", "traceparent", "x-own",
    ]  # fmt: skip
