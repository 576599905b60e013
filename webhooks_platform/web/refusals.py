"""Answers given before Django: a problem document under /api/, a few words of text anywhere else."""

from http import HTTPStatus
from typing import NamedTuple

import orjson

from subscriptions.api.problems import CONTENT_TYPE, Problem


class WebRefusal(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def status_line(self) -> str:
        return f"{self.status} {HTTPStatus(self.status).phrase}"


def too_slow(path: str) -> WebRefusal:
    return _refusal(
        path,
        Problem(408, "request_timeout", "The body did not arrive in time. Nothing was done; send the request again."),
    )


def too_large(path: str, limit: int) -> WebRefusal:
    return _refusal(path, Problem(413, "payload_too_large", f"The body is larger than {limit // 1024} KiB."))


def cut_short(path: str) -> WebRefusal:
    return _refusal(path, Problem(400, "bad_request", "The body is shorter than its Content-Length. Nothing was done."))


def _refusal(path: str, problem: Problem) -> WebRefusal:
    is_api = path.startswith("/api/")
    body = orjson.dumps(problem.document()) if is_api else f"{problem.detail}\n".encode()
    headers = [
        ("Content-Type", CONTENT_TYPE if is_api else "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("X-Content-Type-Options", "nosniff"),
        # What is left of the body is not read.
        ("Connection", "close"),
    ]
    return WebRefusal(problem.status, headers, body)
