"""Texts that other modules write in English, of which the portal's pages show the reader's translation.

They are on record (check-ups, notices), serve the console too, or are plain words of the field. What holds a figure or
a name is shown as it is.
"""

from django.utils.translation import gettext_noop as _

TEXTS = (
    # deliveries/browse/filter.py and deliveries/browse/words.py: filters, causes of death
    _("Event type"), _("Why"), _("Last answer"), _("Ordering key"), _("503, read timeout"), _("invoice.paid"),
    _("Every attempt failed"), _("Waited too long"), _("The receiver wants nothing more"),
    _("The receiver refused this event"), _("We do not deliver to this address"), _("Its endpoint was deleted"),
    _("Given up manually"),
    # names of filters in the preview of a replay
    _("endpoint"), _("state"), _("event type"), _("answer"), _("since"), _("until"), _("q"),
    # deliveries/statistics/figures.py
    _("24 hours"), _("7 days"), _("30 days"),
    # subscriptions/signing/ready_made.py
    _("t=…,v1=… over <timestamp>.<body>; what Stripe's libraries verify."), _("Standard Webhooks."),
    _("As GitHub signs: for receivers that verify X-Hub-Signature-256."),
    _("As Shopify signs: for receivers that verify X-Shopify-Hmac-Sha256."),
    _("As Slack signs: for receivers that verify X-Slack-Signature."),
    _("As Stripe signs, in the header Stripe-Signature."),
    # subscriptions/models.py
    _("full"), _("thin"), _("cloudevents"), _("cloudevents_binary"),
    # deliveries/send.py
    _("connect timeout"), _("connect failed"), _("dns"), _("tls"), _("refused address"), _("read timeout"), _("reset"),
    _("bad response"), _("shortage"), _("internal"), _("worker lost"), _("no answer"),
    _("The receiver could not be reached in time."), _("The receiver did not accept the connection."),
    _("The host name of the URL does not lead to an address that we deliver to."),
    _("No secure connection could be made with the receiver."), _("We do not deliver to this URL."),
    _("The receiver did not finish its answer in time."),
    _("The receiver closed the connection before its answer was complete."),
    _("The receiver's answer is not valid HTTP."),
    _("Our machine had no files, memory, threads or ports left; nothing was sent."),
    _("Something went wrong on our side; the receiver is not to blame."),
    _("The worker died during this attempt; whether it reached the receiver is not known."),
    # notices: overdue.py, breaker.py and lifecycle.py of deliveries
    _("Every delivery has failed for a day."),
    _("Every delivery has failed for four days; the endpoint will be disabled in a day."),
    _("Every delivery has failed for five days. Fix the receiver, then resume the endpoint: nothing was dropped."),
    _("the probe succeeded; the backlog drains with a slow start"), _("a delivery succeeded"),
    _("its URL was changed"), _("by the portal"),
    # deliveries/endpoint_tests/diagnose.py
    _("A genuine request: signed as every delivery is, its body with 10.0 and letters beyond ASCII."),
    _("Another genuine request, whose body looks the same after it was parsed and written again."),
    _("A forged request: one amount in the body was changed after it was signed."),
    _("An old request: signed correctly, with a timestamp of an hour ago."),
    _("The genuine request once more, as a retry brings it: same id and body, signed anew."),
    _("Not sent: an earlier request got no answer."),
    _("Accepts genuine requests"), _("Rejects tampered requests"), _("Rejects old timestamps"),
    _("Takes duplicates calmly"), _("Answers fast"),
    _("What we send arrives and is accepted."),
    _("A request that was changed on the way is refused: the signature is verified."),
    _("A recorded request cannot be played again later."),
    _(
        "A duplicate is answered like the first one. Whether its work is done only once, we cannot see from here."
    ),
    _("Keep the ids you have seen, and skip an event whose id is among them."),
    _("It answers at once, so its deliveries never queue up behind each other."),
    _("No delivery arrives here."), _("Make the URL reachable from the internet, then check again."),
    _("It is too busy to say."), _("Check again later."), _("Redirects are never followed."),
    _("Set the URL to the place it redirects to."), _("Nothing takes a POST at this URL."),
    _("Compare the URL with the receiver's route."),
    _("410 says that it wants nothing more: a delivery answered so disables the endpoint."),
    _("Answer 2xx if it does want events."), _("The receiver broke."),
    _("Its own log says why; the request is a plain JSON POST."),
    _(
        "It refuses a genuine request but accepts one that survives parsing: the body is parsed and written again"
        " before it is verified, which changes 10.0 to 10 and letters to escapes."
    ),
    _("Verify the raw bytes as they came, and parse them afterwards."),
    _("It refuses genuine requests, so every delivery would fail."),
    _(
        "The usual causes: another secret than this endpoint's (one that was rotated away, or belongs to another"
        " endpoint, or lost a character); the body parsed and written again before it is verified; the wrong header or"
        " signature scheme; a clock that is minutes off."
    ),
    _("It does not verify: it accepts what nobody signed, so anyone who knows the URL can send it events."),
    _("Verify before you answer: a 200 sent first, with the check in the background, accepts everything."),
    _("It does not verify, and so does not look at the time either."),
    _("It verifies, but has no tolerance check: whoever records a request can play it again at any time."),
    _("First verify the signature."),
    _(
        "Refuse a signed timestamp that is more than five minutes away from your clock. Ours is fresh on every"
        " attempt, retries and replays included."
    ),
    _("Without an answer, nobody can tell."), _("Make it answer first, then check again."),
    _("It refuses genuine requests too, so this says nothing."), _("Put that right first."),
    _("It was not accepted, but not refused either: that looks like an error nobody caught."),
    _("Answer 401 or 400 to what does not verify."), _("It did not accept the first one."),
    _(
        "It answers a duplicate with an error. Deliveries are made at least once: an event it already has would be"
        " retried until it is a dead letter."
    ),
    _("Answer 2xx to an id you have seen, and do nothing else with it."),
    _("It does not answer in time: such a delivery fails and is sent again."),
    _("Store the event, answer, and do the work afterwards."),
    # deliveries/endpoint_tests/verify.py
    _("The headers are not complete"), _("The wrong secret"), _("These do not belong together"), _("Nearly"),
    _("It verifies"), _("Found it"), _("Your code is right"),
    _("There is no webhook-signature among them. Header names come in any case."),
    _("The webhook-signature is cut short: it should read t=<seconds>,v1=<hex>."),
    _("The webhook-signature is not one of ours: it begins with t= or with v1,"),
    _("This scheme signs the webhook-id and the webhook-timestamp too; paste both."),
    _(
        "The request is genuine, and the secret you pasted is not this endpoint's: it was rotated away, belongs to"
        " another endpoint, or lost a character. Rotate the secret if you no longer have the right one."
    ),
    _(
        "No secret here signs this body with this signature. Either the body is not the one that was sent (copy the raw"
        " bytes, before anything parses them), or it is another request's, or the secret is another endpoint's."
    ),
    _("Headers, body and secret fit together, and the timestamp is fresh."),
    _("It computes the signature that was sent."),
)  # fmt: skip
