"""locale/: every text of the portal has its German, the compiled file says the same, and no text was left unmarked."""

import re
from pathlib import Path

import pytest

from deliveries.browse import words
from deliveries.browse.criteria import PORTAL_FIELDS
from deliveries.endpoint_tests import diagnose, verify
from deliveries.portal import translated
from deliveries.portal.endpoints import CHARTS
from deliveries.send import EXPLANATIONS
from deliveries.statistics import figures
from tests.translations import CATALOGUE, ROOT, TEMPLATES, Said, compiled, german, said, unmarked

# The same in every language.
UNTRANSLATED = {"JSON Schema", "p50", "p95", "p99", "95&nbsp;%:", "curl", "Python"}


def test_every_text_of_the_portal_is_in_the_german_catalogue() -> None:
    known = {(each.text, each.context) for each in german()}
    assert {each: where for each, where in said().items() if (each.text, each.context) not in known} == {}


def test_the_catalogue_holds_nothing_that_nobody_says() -> None:
    wanted = {(each.text, each.context) for each in said()}
    assert [each for each in german() if (each.text, each.context) not in wanted] == []


def test_there_is_enough_of_it_to_mean_something() -> None:
    assert len(said()) > 400


def test_no_german_text_is_empty_or_doubtful() -> None:
    assert [each for each, texts in german().items() if not texts or not all(texts)] == []
    assert "fuzzy" not in CATALOGUE.read_text()


def test_every_german_text_holds_the_same_placeholders_and_markup() -> None:
    def parts(text: str) -> list[str]:
        return sorted(set(re.findall(r"%\(\w+\)s|\{\}|</?[a-z][^>]*>|#", text)))

    def fits(each: Said, text: str) -> bool:
        # A singular may say "one" instead of its count.
        return parts(text) in [parts(each.text), *([parts(each.plural)] if each.plural else [])]

    assert [each for each, texts in german().items() if not all(fits(each, text) for text in texts)] == []


def test_every_plural_has_both_forms() -> None:
    plurals = {each.text for each in said() if each.plural}
    assert {each.text for each, texts in german().items() if len(texts) == 2} == plurals


def test_the_compiled_file_says_what_its_source_says() -> None:
    source = {Said(each.text, context=each.context): texts for each, texts in german().items()}
    assert compiled() == source, "msgfmt --check -o django.mo django.po, in locale/de/LC_MESSAGES"


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_text_of_a_template_is_left_unmarked(template: Path) -> None:
    assert [text for text in unmarked(template) if text not in UNTRANSLATED] == []


def test_texts_from_elsewhere_are_said_there() -> None:
    """Whoever changes one of them there finds out here that the portal's German no longer knows it."""
    texts = set(translated.TEXTS)
    assert {*EXPLANATIONS.values()} <= texts
    assert {words.explanation("worker_lost"), *(each.title for each in words.DEAD.values())} <= texts
    assert {declared.label for _, declared in PORTAL_FIELDS} <= texts
    assert {figures.RANGES[name].title for name in CHARTS} <= texts
    assert {*diagnose.SENT.values()} <= texts
    sources = "".join(Path(str(module.__file__)).read_text() for module in (diagnose, verify))
    sources += "".join((ROOT / "deliveries" / name).read_text() for name in ("upkeep/overdue.py", "health/breaker.py"))
    sources += (ROOT / "subscriptions/signing/ready_made.py").read_text()
    flat = re.sub(r'"\s*\n\s*"', "", sources)
    long = [text for text in texts if len(text) > 45 and text not in EXPLANATIONS.values()]
    assert [text for text in long if text not in flat and text != words.explanation("worker_lost")] == []
