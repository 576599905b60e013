"""JSON in, strictly: what we accept, every consumer's parser will read as the same thing.

Refused: bodies over the limit or cut short, anything but UTF-8, duplicate keys, NaN and Infinity, integers beyond 64
bits, floats beyond a double, NUL and lone surrogates in strings, and nesting so deep that it cannot be written out
again.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import IO, Any

import orjson
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.parsers import BaseParser

from subscriptions.api.problems import Problem

# Answers hold what came in some levels deeper than the request did, and must be rendered too.
_LEVELS_TO_SPARE = 8


class StrictJSONParser(BaseParser):
    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        context = parser_context or {}
        limit = getattr(context.get("view"), "max_body_bytes", None) or settings.MAX_BODY_BYTES
        charset = _charset(media_type or "")
        if charset not in ("", "utf-8", "utf8", "us-ascii"):
            raise Problem(415, "unsupported_charset", "Send UTF-8.")
        announced = _announced(context.get("request"))
        if announced > limit:
            raise too_large(limit)
        try:
            raw = stream.read(limit + 1)
        except RequestDataTooBig:
            raise too_large(limit) from None
        if len(raw) > limit:
            raise too_large(limit)
        if len(raw) < announced:
            # Who hung up meant to say more, also where what came makes sense by itself.
            raise _invalid("The body is shorter than its Content-Length.")
        return loads(raw)


def loads(raw: bytes) -> Any:
    """The value, or a Problem that says what is wrong with it."""
    value = _loads_with_orjson(raw)
    return _strictly(raw) if value is None else value


def _loads_with_orjson(raw: bytes) -> Any:
    """The value of a body that comes out as it went in, but for blanks; None for any other, good or bad.

    Such a body has no key twice and no number that was rounded: they would be missing from what is written out again.
    """
    # NUL, half a character, or one that is written out another way. A single byte is found sixty times as fast.
    if b"\\" in raw and b"\\u" in raw:
        return None
    try:
        value = orjson.loads(raw)
        again = orjson.dumps(_wrapped(value))[_LEVELS_TO_SPARE:-_LEVELS_TO_SPARE]
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    is_the_same = again == raw or again.replace(b" ", b"") == _without_blanks(raw)
    return value if is_the_same else None


def _without_blanks(raw: bytes) -> bytes:
    """Of valid JSON. In strings, too, where of all blanks only spaces can stand."""
    bare = raw.replace(b" ", b"")
    return bare.translate(None, b"\t\n\r") if b"\n" in bare or b"\t" in bare else bare


def _strictly(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid(f"The body is not UTF-8 (byte {error.start}).") from None
    try:
        value = _decoder.decode(text)
        # Catches what the standard library lets through: lone surrogates, and nesting beyond what can be rendered.
        orjson.dumps(_wrapped(value))
    except Problem:
        raise
    except RecursionError:
        raise _invalid("The body is nested too deeply.") from None
    except orjson.JSONEncodeError as error:
        reason = "nested too deeply" if "ecursion" in str(error) else "not valid Unicode (a lone surrogate)"
        raise _invalid(f"The body is {reason}.") from None
    except ValueError as error:
        raise _invalid(f"The body is not valid JSON: {error}.") from None
    if "\\u0000" in text and _has_nul(value):
        raise _invalid("A string holds a NUL character, which many receivers cannot store.")
    return value


def too_large(limit: int) -> Problem:
    return Problem(413, "payload_too_large", f"The body is larger than {limit // 1024} KiB.")


def _wrapped(value: Any) -> Any:
    for _ in range(_LEVELS_TO_SPARE):
        value = [value]
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise _invalid(f"The key {twice!r} stands twice in one object.")
    return found


def _integer(digits: str) -> int:
    # 20 characters hold every 64-bit integer; int() of an endless string would be slow.
    value = int(digits) if len(digits) <= 20 else 1 << 64
    if not -(1 << 63) <= value < 1 << 64:
        raise _invalid("An integer does not fit into 64 bits; send it as a string.")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _invalid("A number is too large for a double; send it as a string.")
    return value


def _refuse_constant(name: str) -> Any:
    raise _invalid(f"{name} is not JSON.")


def _has_nul(value: Any) -> bool:
    """Depth is bounded: the value was just rendered. `\\u0000` in the text may also be an escaped backslash."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _has_nul(inner) for name, inner in value.items())
    return isinstance(value, list) and any(_has_nul(inner) for inner in value)


def _charset(media_type: str) -> str:
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""


def _announced(request: Any) -> int:
    """The Content-Length. One that is no number counts as 0, as Django has it."""
    given = request.META.get("CONTENT_LENGTH") if request is not None else None
    return int(given) if given and given.strip().isdecimal() else 0


def _invalid(detail: str) -> Problem:
    return Problem(400, "invalid_json", detail)


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant
)
