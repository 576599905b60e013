"""The deployment's network policy applied to a URL, for every path that names a target. The dial judges again."""

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from functools import lru_cache, partial
from ipaddress import ip_network

from django.conf import settings

from subscriptions.guards.urls import (
    Policy,
    RefusedTarget,
    check_addresses,
    check_as_public,
    name_to_look_up,
    parse_target,
)

# A name that takes longer to resolve counts as one that does not (seconds).
_LOOKUP_SECONDS = 2.0


def policy() -> Policy:
    return _policy(
        tuple(settings.DELIVERY_ALLOWED_NETWORKS), settings.DELIVERY_ALLOW_HTTP, tuple(settings.DELIVERY_ALLOWED_PORTS)
    )


def check_url(url: str) -> str:
    """The URL in its one normal spelling, or RefusedTarget.

    A name is not looked up where its URL is fine for a public host: an answer that depended on it would tell which
    names exist in the network behind us. The dial judges what it resolves to. Plain http and other ports are for names
    inside opened networks alone: those are looked up, and one that resolves elsewhere is refused like one without.
    """
    rules = policy()
    target = parse_target(url, policy=rules)
    if target.address is None and rules.allowed_networks:
        try:
            check_as_public(scheme=target.scheme, port=target.port, policy=rules)
        except RefusedTarget:
            if not _is_inside(target.host, target.port, rules):
                raise
    return target.url


def check_shape(url: str) -> None:
    """RefusedTarget for a URL that `check_url` would refuse by its spelling alone. Looks nothing up: the verdict is
    the same wherever the name leads."""
    parse_target(url, policy=policy())


def _is_inside(host: str, port: int, rules: Policy) -> bool:
    addresses = _addresses(host, port)
    closed = replace(rules, allow_http=False, allowed_ports=frozenset())
    try:
        check_addresses(addresses, scheme="http", port=port, policy=closed)
    except RefusedTarget:
        return False
    return True


def _addresses(host: str, port: int) -> list[str]:
    look = partial(socket.getaddrinfo, name_to_look_up(host), port, type=socket.SOCK_STREAM)
    try:
        answers = _resolvers().submit(look).result(_LOOKUP_SECONDS)
    except (OSError, FutureTimeout):
        return []
    return sorted({str(answer[4][0]) for answer in answers})


@lru_cache(maxsize=1)
def _resolvers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=8, thread_name_prefix="lookup")


@lru_cache(maxsize=8)
def _policy(networks: tuple[str, ...], allow_http: bool, ports: tuple[int, ...]) -> Policy:
    return Policy(
        allow_http=allow_http,
        allowed_ports=frozenset(ports),
        allowed_networks=tuple(ip_network(network) for network in networks),
    )
