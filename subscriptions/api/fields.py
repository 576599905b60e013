"""The fields that requests are made of: each takes JSON values of its own type, and knows its JSON Schema.

Rules that need the database live in the functions below the views.
"""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from subscriptions.audit import LONGEST_WHY

_METADATA_ENTRIES = 50
_METADATA_NAME = 64


class _Typed:
    """Takes a JSON value of its own type and no other. Django REST framework would read 5 as "5" and "yes" as true."""

    json_type: type

    def to_internal_value(self, data: Any) -> Any:
        if type(data) is not self.json_type:
            self.fail("invalid")  # type: ignore[attr-defined]
        return super().to_internal_value(data)  # type: ignore[misc]


class Text(_Typed, serializers.CharField):
    """`keywords` are further ones of JSON Schema, for rules that a field's options do not say."""

    json_type = str

    def __init__(self, *, keywords: Mapping[str, Any] | None = None, **options: Any) -> None:
        # Kept as it came: a name that is trimmed here would not be found by whoever sent it.
        super().__init__(trim_whitespace=False, **options)
        self.keywords = dict(keywords or {})


class Whole(_Typed, serializers.IntegerField):
    json_type = int


class Flag(_Typed, serializers.BooleanField):
    json_type = bool


class Why(Text):
    """The reason for a change, for the audit log."""

    def __init__(self, **options: Any) -> None:
        usual = {
            "required": False,
            "allow_blank": True,
            "max_length": LONGEST_WHY,
            "help_text": "The reason, for the audit log.",
        }
        super().__init__(**{**usual, **options})


class WhyIn(serializers.Serializer[Any]):
    """Why this is done. The body may be left out."""

    why = Why()


class Metadata(serializers.DictField):
    """A flat object of strings for the caller's own use."""

    child = Text(max_length=500, allow_blank=True)
    keywords = {"maxProperties": _METADATA_ENTRIES, "propertyNames": {"maxLength": _METADATA_NAME}}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"help_text": "Names and texts for your own use.", **options})

    def to_internal_value(self, data: Any) -> dict[Any, Any]:
        if isinstance(data, dict) and len(data) > _METADATA_ENTRIES:
            raise serializers.ValidationError(f"At most {_METADATA_ENTRIES} entries.")
        if isinstance(data, dict) and any(len(str(name)) > _METADATA_NAME or "\0" in str(name) for name in data):
            raise serializers.ValidationError(f"A name is at most {_METADATA_NAME} characters.")
        return super().to_internal_value(data)
