"""Fields and query parameters that a route does not know are refused: a misspelt filter must not mean "everything".

Views declare what they know (`ApiView.fields`, `ApiView.parameters`); anything else is refused, with a pointer to it
and the nearest known name. A parameter's pointer is `?name`; a field's is a JSON pointer.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from django.http import QueryDict
from rest_framework.serializers import BaseSerializer

from subscriptions.api.problems import Problem, escaped

# Field names; below each, the names inside its object or inside each object of its list. None: a plain value, or free.
Names = Mapping[str, "Names | None"]

# So many are named in one answer, and so much of each: nobody reads more. Looking for a near name takes 0.1 ms, so none
# is looked for where ours are all much shorter.
_MOST_NAMED = 3
_LONGEST_SHOWN = 64
_LONGEST_COMPARED = 32


class _Unknown(NamedTuple):
    # The pointer of the object that holds it.
    inside: str
    name: str
    known: Collection[str]


@cache
def names_of(shape: type[BaseSerializer[Any]]) -> Names:
    """The fields that a serializer declares. Dictionaries and JSON fields are free inside."""
    return _declared(shape())


def names(*of: str) -> Names:
    """Fields that are read by hand instead of by a serializer."""
    return dict.fromkeys(of)


def refuse_unknown_parameters(query: QueryDict, *, known: Collection[str], fields: Collection[str] = ()) -> None:
    """Raises for a parameter that is not known, or that is known and given twice."""
    unknown = [name for name in query if name not in known]
    if unknown:
        raise _problem(
            "unknown_parameter",
            [
                {"pointer": f"?{_shown(name)}", "detail": _sentence("parameter", name, known, elsewhere=fields)}
                for name in unknown[:_MOST_NAMED]
            ],
        )
    if repeated := [name for name, values in query.lists() if len(values) > 1]:
        raise _problem(
            "invalid_parameter",
            [{"pointer": f"?{name}", "detail": f"`{name}` is given more than once."} for name in repeated],
        )


def refuse_unknown_fields(body: Mapping[str, Any], *, known: Names, parameters: Collection[str] = ()) -> None:
    if found := unknown_fields(body, known=known, parameters=parameters):
        raise found


def unknown_fields(body: Mapping[str, Any], *, known: Names, parameters: Collection[str] = ()) -> Problem | None:
    """The refusal of a body that holds fields we do not know, at whatever depth; None for any other."""
    unknown = list(islice(_walk(body, known, ""), _MOST_NAMED))
    if not unknown:
        return None
    return _problem(
        "unknown_field",
        [
            {
                "pointer": f"{each.inside}/{escaped(_shown(each.name))}",
                "detail": _sentence("field", each.name, each.known, elsewhere=() if each.inside else parameters),
            }
            for each in unknown
        ],
    )


def _declared(shape: Any) -> Names:
    found: dict[str, Names | None] = {}
    for name, field in shape.fields.items():
        # A list, by whatever class, holds its items' shape as `child`.
        inner = getattr(field, "child", field)
        found[name] = _declared(inner) if isinstance(inner, BaseSerializer) else None
    return found


def _walk(value: Mapping[str, Any], known: Names, pointer: str) -> Iterator[_Unknown]:
    for name, inner in value.items():
        if name not in known:
            yield _Unknown(pointer, name, known)
        elif (inside := known[name]) is not None:
            items = enumerate(inner) if isinstance(inner, list) else [(None, inner)]
            for index, item in items:
                if isinstance(item, dict):
                    step = "" if index is None else f"/{index}"
                    yield from _walk(item, inside, f"{pointer}/{escaped(name)}{step}")


def _problem(code: str, errors: list[dict[str, str]]) -> Problem:
    return Problem(400, code, errors[0]["detail"], errors=errors)


def _sentence(kind: str, name: str, known: Collection[str], *, elsewhere: Collection[str]) -> str:
    """Such as: There is no field `endpont`. Did you mean `endpoint`?"""
    missing = f"There is no {kind} `{_shown(name)}`."
    if name in elsewhere:
        place = "field of the body" if kind == "parameter" else "query parameter"
        return f"{missing} `{name}` is a {place}."
    if near := _nearest(_shown(name), tuple(known)):
        return f"{missing} Did you mean `{near}`?"
    if not known:
        return f"{missing} This request takes no {kind}s."
    return f"{missing} The {kind}s are {', '.join(f'`{each}`' for each in known)}."


@lru_cache(maxsize=1024)
def _nearest(name: str, known: tuple[str, ...]) -> str | None:
    if len(name) > _LONGEST_COMPARED:
        return None
    spelt = name.strip().lower().replace("-", "_").removesuffix("[]")
    return next(iter(get_close_matches(spelt, known, n=1)), None)


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}…"
