"""Django's WSGI handler, for requests whose Content-Type would break it before it can answer anything."""

from typing import Any

from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters


class TolerantRequest(WSGIRequest):
    """Read the same whatever its Content-Type says.

    In Django a charset there also decides how the query string is read, at once: one that decodes no text (`hex`) or
    a thousand parameters are an error outside of all error handling, a bare 500 for every stranger. The API's parser
    looks at the charset itself, and forms are UTF-8.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except ValueError:  # parameters that cannot be read
            meta["CONTENT_TYPE"] = ""
            self.content_type, self.content_params = "", {}


class Handler(WSGIHandler):
    request_class = TolerantRequest
