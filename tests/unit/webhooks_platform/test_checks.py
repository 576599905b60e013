"""webhooks_platform/checks.py: nonsense in the settings is refused, and the refusal says how to put it right."""

import base64
from typing import Any

import pytest
from pytest_django import Settings

from webhooks_platform.checks import check_settings, refuse_nonsense

CLIENT = {"OIDC_CLIENT_ID": "console", "OIDC_CLIENT_SECRET": "a secret"}
KEY = "k1:" + base64.b64encode(b"k" * 32).decode()


def findings() -> list[tuple[str | None, str, str | None]]:
    return [(error.id, error.msg, error.hint) for error in check_settings(None)]


def test_the_tests_own_settings_are_sane() -> None:
    assert findings() == []


@pytest.mark.parametrize(
    ("changes", "number", "what", "fix"),
    [
        ({"SECRET_KEY": ""}, "E001", "SECRET_KEY is missing", "secrets.token_urlsafe(50)"),
        ({"SECRET_KEY": "x" * 31}, "E001", "shorter than 32 characters", "secrets.token_urlsafe(50)"),
        ({"ENCRYPTION_KEYS": []}, "E002", "ENCRYPTION_KEYS is empty", "base64.b64encode(os.urandom(32))"),
        ({"ENCRYPTION_KEYS": ["k1:short"]}, "E002", "takes `id:base64 of 32 bytes`", "Set ENCRYPTION_KEYS"),
        ({"ENCRYPTION_KEYS": [KEY, KEY]}, "E002", "names the key id 'k1' twice", "Set ENCRYPTION_KEYS"),
        ({"DELIVERY_LEASE_SECONDS": 4.9}, "E003", "A lease of 4.9 s renewed every 2.5 s", "(defaults: 10 and 2.5)"),
        ({"DELIVERY_LEASE_RENEW_SECONDS": 0}, "E003", "renewed every 0 s", "(defaults: 10 and 2.5)"),
        ({"DELIVERY_SWEEP_SECONDS": 0}, "E003", "must be above 0", "Leave them unset"),
        ({"DELIVERY_IDLE_SECONDS": -1}, "E003", "must be above 0", "Leave them unset"),
        ({"DELIVERY_RETRY_SCHEDULE": []}, "E004", "is empty: nothing would ever be sent", "e.g. 0,60,300"),
        ({"DELIVERY_RETRY_SCHEDULE": [0, -1]}, "E004", "makes no sense: 0,-1", "from 0 to 604800"),
        ({"DELIVERY_RETRY_SCHEDULE": [604_801]}, "E004", "makes no sense: 604801", "from 0 to 604800"),
        ({"DELIVERY_RETRY_SCHEDULE": [0] * 21}, "E004", "makes no sense", "1 to 20 waits"),
        ({"DELIVERY_CONCURRENCY": 0}, "E005", "DELIVERY_CONCURRENCY is 0", "from 1 to 100000"),
        ({"DELIVERY_TIMEOUT_SECONDS": 31}, "E005", "DELIVERY_TIMEOUT_SECONDS is 31", "from 1 to 30"),
        ({"DELIVERY_MAX_IN_FLIGHT": 1001}, "E005", "DELIVERY_MAX_IN_FLIGHT is 1001", "from 1 to 1000"),
        ({"BREAKER_FAILURES": 0}, "E005", "BREAKER_FAILURES is 0", "from 1 to 1000000"),
        ({"BREAKER_COOLDOWN_SECONDS": 0}, "E005", "BREAKER_COOLDOWN_SECONDS is 0", "from 1 to 86400"),
        ({"BREAKER_MAX_COOLDOWN_SECONDS": 0}, "E005", "BREAKER_MAX_COOLDOWN_SECONDS is 0", "from 1 to 86400"),
        ({"MAX_BODY_BYTES": 1023}, "E005", "MAX_BODY_BYTES is 1023", "from 1024 to 67108864"),
        ({"MAX_BATCH_EVENTS": 0}, "E005", "MAX_BATCH_EVENTS is 0", "from 1 to 10000"),
        ({"RETENTION_ATTEMPT_DAYS": 0}, "E005", "RETENTION_ATTEMPT_DAYS is 0", "from 1 to 36500"),
        ({"RETENTION_PAYLOAD_DAYS": 0}, "E005", "RETENTION_PAYLOAD_DAYS is 0", "from 1 to 36500"),
        ({"RETENTION_DELIVERED_DAYS": 0}, "E005", "RETENTION_DELIVERED_DAYS is 0", "from 1 to 36500"),
        ({"RETENTION_DEAD_DAYS": 36_501}, "E005", "RETENTION_DEAD_DAYS is 36501", "from 1 to 36500"),
        ({"IDEMPOTENCY_HOURS": 0}, "E005", "IDEMPOTENCY_HOURS is 0", "from 1 to 8760"),
        ({"MAX_ENDPOINTS_PER_CONSUMER": 0}, "E005", "MAX_ENDPOINTS_PER_CONSUMER is 0", "from 1 to 100000"),
        ({"MAX_BATCH_BODY_BYTES": 1024}, "E005", "below MAX_BODY_BYTES", "room for its largest event"),
        ({"DELIVERY_ALLOWED_NETWORKS": ["10.0.0.1/8"]}, "E006", "has host bits set", "as CIDR"),
        ({"DELIVERY_ALLOWED_NETWORKS": ["localhost"]}, "E006", "'localhost'", "as CIDR"),
        ({"DELIVERY_ALLOWED_PORTS": [0]}, "E006", "a number that is no port", "from 1 to 65535"),
        ({"DELIVERY_ALLOWED_PORTS": [443, 65_536]}, "E006", "a number that is no port", "from 1 to 65535"),
        ({"LOGIN_FAILURES_PER_ACCOUNT": 0}, "E005", "LOGIN_FAILURES_PER_ACCOUNT is 0", "from 1 to 10000"),
        (
            {"OIDC_ISSUER": "x", "OIDC_READ_ONLY_GROUPS": ["a"]},
            "E008",
            "without a client",
            "OIDC_CLIENT_ID",
        ),
        ({"OIDC_ISSUER": "x", **CLIENT}, "E008", "no group may enter", "OIDC_OPERATOR_GROUPS"),
        ({"CONSOLE_PASSWORD_LOGIN": False}, "E008", "Nobody could log in", "CONSOLE_PASSWORD_LOGIN=true"),
        ({"FAIL_POINTS_DIR": "/points"}, "E009", "could kill this process", "Unset it"),
        ({"PUBLIC_URL": "https://a.test/portal"}, "E012", "which is no origin", "scheme and host and nothing else"),
        ({"PUBLIC_URL": "a.test"}, "E012", "which is no origin", "scheme and host and nothing else"),
        ({"UNKNOWN_EVENT_TYPES": "allow"}, "E007", "UNKNOWN_EVENT_TYPES is 'allow'", "`register` or `refuse`"),
        ({"DELIVERY_SIGNATURE_SCHEME": "hmac"}, "E007", "DELIVERY_SIGNATURE_SCHEME is 'hmac'", "timestamped, standard"),
    ],
)
def test_nonsense_is_refused_with_its_fix(
    settings: Settings, changes: dict[str, Any], number: str, what: str, fix: str
) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)

    [(found, message, hint)] = findings()

    assert found == f"webhooks.{number}"
    assert what in message
    assert fix in str(hint)


def test_a_refused_key_is_not_repeated(settings: Settings) -> None:
    settings.ENCRYPTION_KEYS = ["k1:hunter2hunter2"]

    [(_, message, hint)] = findings()

    assert "hunter2" not in message
    assert "hunter2" not in str(hint)


def test_a_process_that_runs_no_checks_stops_with_every_fix_in_its_last_words(settings: Settings) -> None:
    settings.DELIVERY_CONCURRENCY = 0
    settings.UNKNOWN_EVENT_TYPES = "allow"

    with pytest.raises(SystemExit) as refusal:
        refuse_nonsense()

    assert str(refusal.value) == (
        "webhooks.E005: DELIVERY_CONCURRENCY is 0.\n  Set it to a number from 1 to 100000.\n"
        "webhooks.E007: UNKNOWN_EVENT_TYPES is 'allow'.\n  Set it to `register` or `refuse`."
    )


def test_a_process_with_sane_settings_goes_on() -> None:
    refuse_nonsense()


@pytest.mark.parametrize("allowance", ["FAIL_POINTS_ALLOWED", "DEBUG"])
def test_fail_points_need_an_allowance_of_their_own_or_debug(settings: Settings, allowance: str) -> None:
    settings.FAIL_POINTS_DIR = "/points"
    setattr(settings, allowance, True)

    assert findings() == []
