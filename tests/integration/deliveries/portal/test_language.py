"""deliveries/portal/language.py: a page speaks the language that its reader picked, or that the browser asks for."""

import re
from typing import Any

import pytest
from django.test import Client

from subscriptions.models import Consumer
from tests.conftest import Api
from tests.console import logged_in
from tests.integration.deliveries.portal.test_isolation import QUERIES, things
from tests.portal import inside

pytestmark = pytest.mark.django_db(transaction=True)


def page(client: Client, path: str = "/portal/", accept: str = "") -> Any:
    return client.get(path, headers={"accept-language": accept})


def language_of(answer: Any) -> tuple[str, str]:
    [marked] = re.findall(r'<html lang="(\w+)">', answer.content.decode())
    return marked, answer.headers["Content-Language"]


@pytest.mark.parametrize(
    ("accept", "spoken"),
    [("", "en"), ("de", "de"), ("de-AT,en;q=0.5", "de"), ("en,de;q=0.9", "en"), ("fr", "en"), ("q=,;;" * 500, "en")],
)
def test_a_page_speaks_what_the_browser_asks_for_and_english_otherwise(
    acme: Consumer, accept: str, spoken: str
) -> None:
    answer = page(inside(acme), accept=accept)
    assert language_of(answer) == (spoken, spoken)
    assert ("Endpunkte" in answer.content.decode()) == (spoken == "de")


def test_what_its_reader_picked_stays_on_every_page(acme: Consumer) -> None:
    client = inside(acme)
    assert language_of(page(client, "/portal/keys/?language=de", accept="en")) == ("de", "de")
    assert language_of(page(client, "/portal/", accept="en")) == ("de", "de")
    assert language_of(page(client, "/portal/?language=en", accept="de")) == ("en", "en")
    assert language_of(page(client, "/portal/", accept="de")) == ("en", "en")


def test_a_language_that_nobody_speaks_here_changes_nothing(acme: Consumer) -> None:
    answer = page(inside(acme), "/portal/?language=tlh")
    assert language_of(answer) == ("en", "en")
    assert "portal_language" not in answer.cookies


def test_the_choice_survives_embedding(acme: Consumer, settings: Any) -> None:
    settings.PORTAL_FRAME_ORIGINS = ["https://app.globex.test"]
    answer = page(Client(), "/portal/?language=de")
    cookie = answer.cookies["portal_language"].OutputString()
    assert ("SameSite=None" in cookie, "Partitioned" in cookie) == (True, True)


def test_every_page_is_there_in_german_and_its_figures_draw(acme: Consumer) -> None:
    given, client = things(acme, 2), inside(acme)
    for path in QUERIES:
        if path == "/portal/endpoints/check-url/":
            continue
        text = page(client, path.format(**given), accept="de").content.decode()
        assert path.endswith("verified/") or '<html lang="de">' in text, path
        # A comma would be two numbers to SVG.
        assert re.findall(r'\b(?:x|y|x1|x2|y1|y2|width|height|cx|cy)="[^"]*,[^"]*"', text) == [], path


def test_what_was_done_is_said_in_german_too(acme: Consumer) -> None:
    given, client = things(acme), inside(acme)
    paused = client.post(f"/portal/endpoints/{given['endpoint']}/pause/", headers={"accept-language": "de"})
    told = page(client, paused.headers["Location"], accept="de").content.decode()
    assert "Angehalten. Was für ihn kommt, wartet." in told


def test_who_has_no_session_is_told_so_in_german(db: None) -> None:
    answer = page(Client(), accept="de")
    assert answer.status_code == 403
    assert "Diese Seite braucht einen frischen Link" in answer.content.decode()


def test_a_page_that_is_shown_once_offers_no_second_look(acme: Consumer) -> None:
    made = inside(acme)
    answer = made.post("/portal/keys/", {"scopes": "events:read", "ends": "7"})
    shown = made.get(answer.headers["Location"]).content.decode()
    assert "whk_" in shown
    assert "?language=" not in shown


def test_the_console_and_the_api_speak_english(acme_api: Api, acme: Consumer) -> None:
    console = logged_in("olga", group="Operators").get("/admin/", headers={"accept-language": "de"})
    assert b"Zustellung" not in console.content
    refused = acme_api.post("consumers/acme/endpoints/", {"url": 5}, headers={"accept-language": "de"})
    assert (refused.status_code, refused.json()["errors"][0]["detail"]) == (400, "Not a valid string.")
