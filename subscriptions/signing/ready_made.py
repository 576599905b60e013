"""The recipes that every deployment has. Vendors' ones are for receivers that verify with the vendor's own library."""

from subscriptions.signing.recipe import Recipe

TIMESTAMPED, STANDARD = "timestamped", "standard"

READY_MADE: dict[str, Recipe] = {
    TIMESTAMPED: Recipe(signed="{timestamp}.{body}", lead="t={timestamp},", prefix="v1="),
    STANDARD: Recipe(signed="{id}.{timestamp}.{body}", encoding="base64", key="base64", prefix="v1,", separator=" "),
    "github": Recipe(
        signed="{body}",
        prefix="sha256=",
        signature_header="x-hub-signature-256",
        second_header="x-hub-signature-256-next",
        id_header="x-github-delivery",
        type_header="x-github-event",
    ),
    "shopify": Recipe(
        signed="{body}",
        encoding="base64",
        signature_header="x-shopify-hmac-sha256",
        second_header="x-shopify-hmac-sha256-next",
        id_header="x-shopify-webhook-id",
        type_header="x-shopify-topic",
    ),
    "slack": Recipe(
        signed="v0:{timestamp}:{body}",
        prefix="v0=",
        signature_header="x-slack-signature",
        second_header="x-slack-signature-next",
        timestamp_header="x-slack-request-timestamp",
    ),
    "stripe": Recipe(
        signed="{timestamp}.{body}", lead="t={timestamp},", prefix="v1=", signature_header="stripe-signature"
    ),
}

MEANINGS: dict[str, str] = {
    TIMESTAMPED: "t=…,v1=… over <timestamp>.<body>; what Stripe's libraries verify.",
    STANDARD: "Standard Webhooks.",
    "github": "As GitHub signs: for receivers that verify X-Hub-Signature-256.",
    "shopify": "As Shopify signs: for receivers that verify X-Shopify-Hmac-Sha256.",
    "slack": "As Slack signs: for receivers that verify X-Slack-Signature.",
    "stripe": "As Stripe signs, in the header Stripe-Signature.",
}
