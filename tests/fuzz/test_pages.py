"""The short run of the pages' fuzzer: the same requests each time. FUZZ_EXAMPLES makes it longer, with other ones."""

import os
import random

import pytest

from tests.fuzz.pages import fuzz, pages

EXAMPLES = 300


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(0 if "FUZZ_EXAMPLES" in os.environ else 180)
def test_b_no_page_and_no_form_answers_5xx_whatever_is_sent_by_whomever() -> None:
    longer = os.environ.get("FUZZ_EXAMPLES")
    number = random.SystemRandom().randrange(2**31) if longer else 16
    answers = fuzz(examples=int(longer or EXAMPLES), number=number)
    # Guards the run: requests got through, and were refused, and sent elsewhere.
    assert {200, 302, 400, 403, 404, 405} <= set(answers), (number, answers)


def test_every_address_of_console_and_portal_is_on_the_fuzzer_s_map() -> None:
    templates = {page.template for page in pages()}
    assert {"/portal/endpoints/{endpoint}/secret/{token}/", "/admin/users/{user_id}/{action}/"} <= templates
    assert not [template for template in templates if set("<>()^$?\\") & set(template)]
    assert len(templates) > 60
