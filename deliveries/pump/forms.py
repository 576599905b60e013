"""Between claim and sign: the stored body as an endpoint wants it. Pure, and of stored bytes alone, so that every
attempt and every replay carries the same bytes.

`full` is what was stored, untouched. `thin` keeps of `data` only what names things. `cloudevents` and
`cloudevents_binary` are CloudEvents 1.0 over HTTP: all of it in the body, or the data there and the rest in headers.
"""

from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from subscriptions.models import PayloadMode

_JSON = "application/json"
_STRUCTURED = "application/cloudevents+json; charset=UTF-8"
# What a header of a CloudEvent may hold as it is: printable ASCII but a blank, a quotation mark and a per cent sign.
_PLAIN = "".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", "")


class Form(NamedTuple):
    body: bytes
    content_type: str = _JSON
    headers: tuple[tuple[str, str], ...] = ()


def of(mode: str, body: bytes, *, source: str) -> Form:
    """`source` says whose events these are: with the id, it names a CloudEvent for good."""
    match mode:
        case PayloadMode.THIN:
            return Form(thin(body))
        case PayloadMode.CLOUDEVENTS:
            whole = orjson.loads(body)
            return Form(orjson.dumps({**_attributes(whole, source), "data": whole["data"]}), _STRUCTURED)
        case PayloadMode.CLOUDEVENTS_BINARY:
            whole = orjson.loads(body)
            attributes = _attributes(whole, source)
            # In this mode the content's type is the request's own.
            kind = attributes.pop("datacontenttype")
            headers = tuple((f"ce-{name}", quote(value, safe=_PLAIN)) for name, value in attributes.items())
            return Form(orjson.dumps(whole["data"]), kind, headers)
    return Form(body)


def thin(body: bytes) -> bytes:
    """Of `data` only what names things, as Standard Webhooks suggests: texts and numbers called `id`, `…_id`.

    Without any, there is no `data`."""
    whole = orjson.loads(body)
    names = {name: value for name, value in whole.pop("data").items() if _names(name, value)}
    return orjson.dumps({**whole, "data": names} if names else whole)


def _names(name: str, value: object) -> bool:
    is_name = name == "id" or name.endswith(("_id", "Id", "_ids", "Ids"))
    values = value if isinstance(value, list) and name.endswith("s") else [value]
    return is_name and all(isinstance(each, str | int | None) and not isinstance(each, bool) for each in values)


def _attributes(whole: dict[str, Any], source: str) -> dict[str, str]:
    """Names of extensions are letters and digits alone, and what was a number is text."""
    attributes = {
        "specversion": "1.0",
        "id": whole["id"],
        "source": source,
        "type": whole["type"],
        # Events of before the body had a timestamp happened when they were accepted.
        "time": whole.get("timestamp", whole["created_at"]),
        "datacontenttype": _JSON,
        "apiversion": whole["api_version"],
    }
    if "ordering_key" in whole:
        attributes |= {"partitionkey": whole["ordering_key"], "sequence": str(whole["sequence"])}
    return attributes
