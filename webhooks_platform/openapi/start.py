"""The first steps of /api/docs/: from a key to a delivered event. A test runs them as they stand here."""

from typing import NamedTuple


class StartStep(NamedTuple):
    title: str
    # In the Markdown of our texts.
    text: str
    shell: str


# What the page's script replaces by its own address.
ORIGIN = "https://webhooks.example.com"

_AUTH = '  -H "Authorization: Bearer $KEY"'
_JSON = '  -H "Content-Type: application/json"'

STEPS = (
    StartStep(
        "Your address and your key",
        "A producer's key is printed by `python manage.py issue_key --role producer`, or made by an operator in the"
        " console under API keys. Whoever runs this platform can give you one; strangers get none.",
        f'export URL="{ORIGIN}"\nexport KEY="whk_p_your-key"',
    ),
    StartStep(
        "A consumer",
        "Whom your events are for, such as one of your customers. `uid` is your own name for it, and stands wherever an"
        " id could.",
        "\n".join(
            [
                'curl -X POST "$URL/api/v1/consumers/" \\',
                f"{_AUTH} \\",
                f"{_JSON} \\",
                '  -d \'{"uid": "acme", "name": "Acme Inc"}\'',
            ]
        ),
    ),
    StartStep(
        "An endpoint",
        "Where its events are sent. The answer holds `secret`, this once: with it, the receiver verifies"
        " `webhook-signature`. How, is said under Webhooks.",
        "\n".join(
            [
                'curl -X POST "$URL/api/v1/consumers/acme/endpoints/" \\',
                f"{_AUTH} \\",
                f"{_JSON} \\",
                '  -d \'{"url": "https://hooks.acme.example/webhooks", "event_types": ["invoice.*"]}\'',
            ]
        ),
    ),
    StartStep(
        "An event",
        "Answered with 202, it is stored and owed to the endpoint. With an `Idempotency-Key` you may send it again as"
        " often as you like.",
        "\n".join(
            [
                'curl -X POST "$URL/api/v1/events/" \\',
                f"{_AUTH} \\",
                f"{_JSON} \\",
                '  -H "Idempotency-Key: invoice-4711-paid" \\',
                '  -d \'{"consumer": "acme", "type": "invoice.paid", "data": {"invoice": "4711"}}\'',
            ]
        ),
    ),
    StartStep(
        "What became of it",
        "Its delivery is `delivered`, or `pending` until the next attempt at `next_attempt_at`. Where all attempts fail"
        " it is `dead`, and can be replayed.",
        "\n".join(['curl "$URL/api/v1/deliveries/?limit=5" \\', _AUTH]),
    ),
)
