"""A page that shows something once is used up by somebody who looks at it, not by a preview."""

from django.http import HttpRequest, HttpResponse

# Browsers that load a page before anybody asked for it say `prefetch`, `prerender` or `preview` in one of these.
_HEADERS = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")


def answer_preview(request: HttpRequest) -> HttpResponse | None:
    """The answer to a request whose answer nobody reads, a HEAD or a page loaded ahead; None for all others."""
    if request.method == "HEAD":
        return HttpResponse()
    if any("pre" in request.headers.get(name, "").lower() for name in _HEADERS):
        # Too early: a browser throws this away and asks again when somebody goes there.
        return HttpResponse(status=425)
    return None
