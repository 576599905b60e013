"""Every `code` that a problem document can have: its status, and what it means. A test holds the code to this list."""

from typing import NamedTuple


class Meaning(NamedTuple):
    status: int
    text: str


CODES: dict[str, Meaning] = {
    "already_done": Meaning(409, "The replay job is done; nothing is left to cancel."),
    "ambiguous_id": Meaning(409, "Several consumers have an event of this id: say which with `consumer`."),
    "bad_request": Meaning(400, "The request is malformed, cut short, or for a host that is not served."),
    "check_up_too_soon": Meaning(429, "The last check-up of this endpoint began moments ago."),
    "consumer_not_found": Meaning(404, "An event is addressed to a consumer that does not exist."),
    "database_unavailable": Meaning(503, "The database did not answer in time. Send the same request again."),
    "endpoint_full": Meaning(429, "The endpoint is at its rate limit or has as many requests in flight as it may."),
    "event_id_in_progress": Meaning(409, "An event of this id is being accepted right now. Send it again."),
    "event_id_reused": Meaning(409, "This id was used before, for another event."),
    "event_type_archived": Meaning(400, "The event type is archived."),
    "event_type_exists": Meaning(409, "The catalogue has an event type of this name."),
    "event_type_unknown": Meaning(400, "The event type is not in the catalogue, and unknown ones are refused here."),
    "filter_required": Meaning(400, "A replay of everything has to say so: `all`."),
    "forbidden": Meaning(403, "The key's role does not allow this."),
    "held": Meaning(409, "An operator holds everything back: nothing goes out."),
    "idempotency_in_progress": Meaning(409, "A request with this Idempotency-Key is under way. Send it again soon."),
    "idempotency_key_invalid": Meaning(400, "An Idempotency-Key is 1 to 255 visible ASCII characters."),
    "idempotency_key_reused": Meaning(409, "This Idempotency-Key was sent before, with another body."),
    "internal_error": Meaning(500, "Something broke on our side. It was logged."),
    "invalid": Meaning(400, "The body does not have the right shape; `errors` says where."),
    "invalid_cursor": Meaning(400, "The cursor is not one of ours. Start again without it."),
    "invalid_json": Meaning(400, "The body is not JSON that everybody reads alike."),
    "invalid_parameter": Meaning(400, "A query parameter has a value it cannot have."),
    "length_required": Meaning(411, "Send the body with a Content-Length."),
    "method_not_allowed": Meaning(405, "The route does not have this method; `Allow` names those it has."),
    "no_check_up_yet": Meaning(404, "The endpoint had no check-up yet."),
    "not_authenticated": Meaning(401, "No key, or one that is unknown, expired or revoked."),
    "not_found": Meaning(404, "There is no such thing, or it belongs to somebody else."),
    "not_replayable": Meaning(409, "This delivery cannot be replayed now."),
    "payload_too_large": Meaning(413, "The body is larger than it may be."),
    "rate_limited": Meaning(429, "The owner of this key sends more requests than it may."),
    "request_timeout": Meaning(408, "The body did not arrive in time. Nothing was done."),
    "rotation_in_progress": Meaning(409, "The old secret of the last rotation still signs: wait, or say `force`."),
    "schema_mismatch": Meaning(400, "The data does not match the event type's JSON Schema."),
    "schema_refused": Meaning(400, "The event type's schema takes too long to check, or has to be registered anew."),
    "scope_required": Meaning(403, "The key lacks the scope of this route."),
    "secrets_locked": Meaning(503, "A secret cannot be opened at present. An operator has to look."),
    "signature_profile_exists": Meaning(409, "There is a signature scheme of this name."),
    "signature_profile_in_use": Meaning(409, "Endpoints sign by this profile, so it stays as it is."),
    "too_many_changes": Meaning(429, "As many changes as are allowed within a day have been made."),
    "too_many_endpoints": Meaning(409, "The consumer has as many endpoints as it may have."),
    "too_many_keys": Meaning(409, "The consumer has, or has made today, as many keys as it may."),
    "too_many_new_endpoints": Meaning(429, "The consumer has made as many endpoints as it may within a day."),
    "too_many_replays": Meaning(409, "As many replay jobs as may run at once are running."),
    "too_many_signature_profiles": Meaning(409, "There are as many signature profiles as there may be."),
    "too_many_tests": Meaning(429, "Another test or check-up is under way."),
    "uid_taken": Meaning(409, "Another consumer has this uid."),
    "unknown_field": Meaning(400, "The body has a field that the route does not know."),
    "unknown_parameter": Meaning(400, "There is a query parameter that the route does not know."),
    "unsupported_charset": Meaning(415, "Send UTF-8."),
    "unsupported_media_type": Meaning(415, "Send `Content-Type: application/json`."),
}

# What may be answered whatever is asked.
ALWAYS = (
    "not_authenticated", "forbidden", "scope_required", "rate_limited", "unknown_parameter", "unknown_field",
    "invalid_parameter", "invalid_json", "invalid", "bad_request", "length_required", "payload_too_large",
    "unsupported_media_type", "unsupported_charset", "request_timeout", "internal_error", "database_unavailable",
)  # fmt: skip
# Where something is changed.
OF_CHANGES = ("too_many_changes", "secrets_locked")
# Where an Idempotency-Key is heeded.
OF_KEYS = ("idempotency_key_invalid", "idempotency_key_reused", "idempotency_in_progress")
