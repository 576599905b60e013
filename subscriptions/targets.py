"""The deployment's network policy applied to a URL, for every path that names a target. The dial judges again."""

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from functools import lru_cache
from ipaddress import ip_network

from django.conf import settings

from subscriptions.url_guard import Policy, RefusedTarget, check_addresses, parse_target

# A name that takes longer to resolve is judged at the dial (seconds).
_LOOKUP_SECONDS = 2.0
# Names that only ever mean this network. Refused unseen, so that an answer does not tell which of them exist.
_INTERNAL_SUFFIXES = (".localhost", ".local", ".internal", ".intranet", ".lan", ".home", ".corp", ".home.arpa")


def policy() -> Policy:
    return _policy(
        tuple(settings.DELIVERY_ALLOWED_NETWORKS), settings.DELIVERY_ALLOW_HTTP, tuple(settings.DELIVERY_ALLOWED_PORTS)
    )


def check_url(url: str) -> str:
    """The URL in its one normal spelling, or RefusedTarget.

    A name that does not resolve yet is let through: its owner may still be setting it up, and the dial will judge it.
    """
    rules = policy()
    target = parse_target(url, policy=rules)
    if target.address is not None:
        return target.url
    internal = "." not in target.host or target.host.endswith(_INTERNAL_SUFFIXES)
    if internal and not rules.allowed_networks:
        raise RefusedTarget("address_not_allowed", "We do not deliver to this host. Use one that is public.")
    addresses = _addresses(target.host, target.port)
    if addresses or internal:
        check_addresses(addresses, scheme=target.scheme, port=target.port, policy=rules)
    return target.url


def _addresses(host: str, port: int) -> list[str]:
    try:
        answers = _resolvers().submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM).result(_LOOKUP_SECONDS)
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
