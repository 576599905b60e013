"""Where we are willing to send: one wall for creating, changing, testing and delivering to an endpoint.

`parse_target` reads a URL so strictly that nobody further down can read it differently. `check_addresses` has the
final word, on the addresses behind the name. Both are pure: whoever asks looks the name up.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.utils.translation import gettext as _

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL_LENGTH = 2048
DEFAULT_PORTS = frozenset({80, 443, 8080, 8443})
# Spelled out, because an empty list that means "everything" opens the wall by accident.
ANY_PORT = range(1, 65536)


class RefusedTarget(ValueError):
    """A URL or address we do not send to. The message is for its owner and never names what a host resolved to."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Policy:
    """What an operator has opened. Inside `allowed_networks`, plain http and every port are fine."""

    allow_http: bool = False
    allowed_ports: frozenset[int] | range = DEFAULT_PORTS
    allowed_networks: tuple[Network, ...] = ()


@dataclass(frozen=True)
class Target:
    """A URL in its one normal spelling; dial `url`, and what was judged is what is dialled."""

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None  # None when the host is a name, which only its answers can settle


def parse_target(url: str, *, policy: Policy) -> Target:
    """The target behind a URL, or `RefusedTarget`. A name still has to pass `check_addresses` when it is dialled."""
    _check_characters(url)
    scheme, authority, rest = _split(url, policy=policy)
    host, port = _split_authority(authority, default_port=443 if scheme == "https" else 80)
    address = _literal(host)
    if address is None:
        host = _name(host)
        # With networks opened, a name may lie inside them, where other rules hold: its answers will tell.
        if not policy.allowed_networks:
            check_as_public(scheme=scheme, port=port, policy=policy)
            if is_internal_name(host):
                raise _not_allowed()
    else:
        host = str(address)
        _check_literal(host, scheme, port, policy)
    return Target(url=_spell(scheme, host, port, rest), scheme=scheme, host=host, port=port, address=address)


@lru_cache(maxsize=4096)
def _check_literal(host: str, scheme: str, port: int, policy: Policy) -> None:
    """Always the same verdict, and often asked: endpoints share hosts. Refusals are not remembered."""
    check_addresses([host], scheme=scheme, port=port, policy=policy)


def check_addresses(addresses: Iterable[str], *, scheme: str, port: int, policy: Policy) -> None:
    """Judge everything a host resolved to, together: one refused answer refuses the host (S02)."""
    try:
        answers = [ip_address(address) for address in addresses]
    except ValueError:
        answers = []
    opened = [_is_opened(answer, policy=policy) for answer in answers]
    if answers and all(opened):
        return
    if not answers or any(_is_refused(answer) for answer, is_open in zip(answers, opened, strict=True) if not is_open):
        raise _not_allowed()
    check_as_public(scheme=scheme, port=port, policy=policy)


def is_internal_name(host: str) -> bool:
    """Names that only ever mean this network. Told by their spelling, so a refusal does not say which of them exist."""
    return "." not in host or host.endswith(INTERNAL_SUFFIXES)


def name_to_look_up(host: str) -> str:
    """Absolute, so that no search list of the resolver turns a public name into one of this network.

    Names of this network are looked up as they stand: they reach a look-up only where an operator opened networks.
    """
    return host if is_internal_name(host) else f"{host}."


def check_as_public(*, scheme: str, port: int, policy: Policy) -> None:
    """The rules for hosts that no opened network covers."""
    if scheme != "https" and not policy.allow_http:
        raise RefusedTarget("scheme_not_allowed", _("The URL has to start with https://."))
    if port not in policy.allowed_ports:
        raise RefusedTarget(
            "port_not_allowed", _("The port has to be %(ports)s.") % {"ports": _in_words(policy.allowed_ports)}
        )


def _in_words(ports: frozenset[int] | range) -> str:
    if isinstance(ports, range):
        return _("from %(lowest)s to %(highest)s") % {"lowest": min(ports), "highest": max(ports)}
    return f" {_('or')} ".join(str(port) for port in sorted(ports))


def _check_characters(url: str) -> None:
    if len(url) > MAX_URL_LENGTH:
        text = _("The URL is longer than %(most)s characters.")
        raise RefusedTarget("url_too_long", text % {"most": MAX_URL_LENGTH})
    if not url.isascii():
        raise RefusedTarget(
            "url_not_ascii",
            _("The URL has characters outside ASCII. Write the host in punycode (xn--…) and percent-encode the rest."),
        )
    # Parsers disagree about every one of these: some drop them, some stop there, some read `\` as `/`.
    if re.search(r'[\x00-\x20\x7f"<>\\^`{|}]', url):
        raise RefusedTarget(
            "url_invalid", _("The URL has a space, a backslash or another character that must be percent-encoded.")
        )
    if re.search(r"%(?![0-9A-Fa-f]{2})", url):
        raise RefusedTarget("url_invalid", _("A percent sign in the URL must be followed by two hexadecimal digits."))


def _split(url: str, *, policy: Policy) -> tuple[str, str, str]:
    scheme, slashes, after = url.partition("://")
    scheme = scheme.lower()
    if not slashes or scheme not in {"http", "https"}:
        either = _("The URL has to start with https:// or http://.")
        raise RefusedTarget(
            "scheme_not_allowed", either if policy.allow_http else _("The URL has to start with https://.")
        )
    if "#" in after:
        raise RefusedTarget("fragment_not_allowed", _("Leave out the # and what follows it: it is never sent."))
    authority = re.split(r"[/?]", after, maxsplit=1)[0]
    if "@" in authority:
        raise RefusedTarget(
            "userinfo_not_allowed",
            _("Leave user and password out of the URL; a custom Authorization header carries them."),
        )
    return scheme, authority, after[len(authority) :]


def _split_authority(authority: str, *, default_port: int) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::(.*))?", authority)
    if match is None:
        raise _invalid_host()
    host, port = match.groups()
    if port is None:
        return host, default_port
    if not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) not in ANY_PORT:
        raise RefusedTarget("port_not_allowed", _("The port has to be a plain number from 1 to 65535."))
    return host, int(port)


def _literal(host: str) -> Address | None:
    """The address a host spells, None for a name. `getaddrinfo` would take 127.1 and 0x7f000001 too: we do not."""
    try:
        if host.startswith("["):
            if "%" in host:  # a zone names one of our own interfaces
                raise _invalid_host()
            return IPv6Address(host[1:-1])
        if re.fullmatch(r"(\d+|0x[0-9a-f]*)", host.rpartition(".")[2], re.IGNORECASE):
            return IPv4Address(host)
    except ValueError as error:
        raise _invalid_host() from error
    return None


def _name(host: str) -> str:
    label = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
    name = host.lower()
    if len(name) > 253 or not re.fullmatch(rf"{label}(?:\.{label})*", name):
        raise _invalid_host()
    return name


def _not_allowed() -> RefusedTarget:
    return RefusedTarget("address_not_allowed", _("We do not deliver to this host. Use one that is public."))


def _invalid_host() -> RefusedTarget:
    return RefusedTarget(
        "host_invalid",
        _("The host has to be a DNS name, an IPv4 address such as 192.0.2.1 or an IPv6 one in brackets."),
    )


def _spell(scheme: str, host: str, port: int, rest: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    suffix = "" if (scheme, port) in {("http", 80), ("https", 443)} else f":{port}"
    return f"{scheme}://{shown}{suffix}{'' if rest.startswith('/') else '/'}{rest}"


def _is_opened(address: Address, *, policy: Policy) -> bool:
    """Whether an operator opened it. Metadata services stay shut, in whatever wrapping (S05)."""
    if any(_is_in(one, METADATA) for one in (address, *_hidden(address))):
        return False
    # To the kernel the mapped form is the IPv4 address; no other wrapping is opened by an IPv4 network.
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    # Opening a wrapper, such as NAT64 on a host without IPv4, opens nothing refused inside it.
    return _is_in(address, policy.allowed_networks) and all(
        _is_opened(inner, policy=policy) or not _is_refused(inner) for inner in _hidden(address)
    )


def _is_refused(address: Address) -> bool:
    """Anything that wraps another address is refused whatever it wraps: no receiver needs it."""
    return _is_in(address, REFUSED) or bool(_hidden(address))


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _hidden(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses an IPv6 one would carry to a translator or a tunnel."""
    if isinstance(address, IPv4Address) or address == LOOPBACK_V6:  # ::1 only looks like ::0.0.0.1
        return []
    octets = address.packed
    if address in SIX_TO_FOUR:
        places = [octets[2:6]]
    elif address in TEREDO:
        places = [octets[4:8], bytes(octet ^ 0xFF for octet in octets[12:])]  # its server; its client, inverted
    elif address in LOCAL_NAT64:
        # RFC 6052: the operator's prefix is 48, 56, 64 or 96 bits long, and octet 8 never belongs to the address.
        short = octets[:8] + octets[9:]
        places = [place for place in (short[6:10], short[7:11], short[8:12], octets[12:]) if any(place)]
    elif _is_in(address, ENDS_IN_IPV4) or (octets[8] & 0xFC, octets[9:12]) == (0, b"\x00\x5e\xfe"):  # or ISATAP
        places = [octets[12:]]
    else:
        places = []
    return [IPv4Address(place) for place in places]


# Reserved for local use, or used for it so widely that no registry hands them out; and those of container platforms.
INTERNAL_SUFFIXES = (
    ".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home", ".home.arpa", ".corp",
    ".private", ".svc", ".consul", ".docker",
)  # fmt: skip

LOOPBACK_V6 = IPv6Address("::1")
SIX_TO_FOUR = IPv6Network("2002::/16")
TEREDO = IPv6Network("2001::/32")
LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
ENDS_IN_IPV4 = (
    IPv6Network("::/96"),  # IPv4-compatible
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped
    IPv6Network("::ffff:0:0:0/96"),  # IPv4-translated (SIIT)
    IPv6Network("64:ff9b::/96"),  # NAT64
)

REFUSED: tuple[Network, ...] = (
    # IPv4
    ip_network("0.0.0.0/8"),  # this host; Linux dials 0.0.0.0 as loopback
    ip_network("10.0.0.0/8"),  # private
    ip_network("100.64.0.0/10"),  # carrier-grade NAT, and the inside of several clouds
    ip_network("127.0.0.0/8"),  # loopback
    ip_network("168.63.129.16/32"),  # Azure's host agent, on an address that looks public
    ip_network("169.254.0.0/16"),  # link-local, home of metadata services
    ip_network("172.16.0.0/12"),  # private
    ip_network("192.0.0.0/24"),  # IETF protocol assignments
    ip_network("192.0.2.0/24"),  # documentation
    ip_network("192.31.196.0/24"),  # AS112
    ip_network("192.52.193.0/24"),  # multicast tunnelling (AMT)
    ip_network("192.88.99.0/24"),  # 6to4 relays
    ip_network("192.168.0.0/16"),  # private
    ip_network("192.175.48.0/24"),  # AS112
    ip_network("198.18.0.0/15"),  # benchmarking
    ip_network("198.51.100.0/24"),  # documentation
    ip_network("203.0.113.0/24"),  # documentation
    ip_network("224.0.0.0/4"),  # multicast
    ip_network("240.0.0.0/4"),  # reserved, and broadcast
    # IPv6 inside 2000::/3, the only space handed out
    ip_network("2001::/23"),  # protocol assignments: Teredo, benchmarking, ORCHID, …
    ip_network("2001:db8::/32"),  # documentation
    SIX_TO_FOUR,
    ip_network("2620:4f:8000::/48"),  # AS112
    ip_network("3ffe::/16"),  # 6bone, given back
    ip_network("3fff::/20"),  # documentation
    # IPv6 outside it, by name first
    ip_network("::/128"),  # unspecified
    ip_network("::1/128"),  # loopback
    *ENDS_IN_IPV4,
    LOCAL_NAT64,
    ip_network("100::/64"),  # discard
    ip_network("5f00::/16"),  # segment routing
    ip_network("fc00::/7"),  # unique local
    ip_network("fe80::/10"),  # link-local
    ip_network("fec0::/10"),  # site-local, deprecated and still routed
    ip_network("ff00::/8"),  # multicast
    # … and then the rest: what nobody has been given, nobody receives on
    ip_network("::/3"),
    ip_network("4000::/2"),
    ip_network("8000::/1"),
)

# Credentials live here. Refused even where an opened network covers them.
METADATA: tuple[Network, ...] = (
    ip_network("169.254.0.0/16"),  # every cloud has one in here, some more than one
    ip_network("168.63.129.16/32"),  # Azure
    ip_network("100.100.100.200/32"),  # Alibaba
    ip_network("192.0.0.192/32"),  # Oracle
    ip_network("fd00:ec2::/32"),  # AWS: instance, pod and task services
    ip_network("fd20:ce::254/128"),  # Google
    ip_network("fd00:c1::a9fe:a9fe/128"),  # Oracle
    ip_network("fd00:42::42/128"),  # Scaleway
    ip_network("fd00:a9fe:a9fe::1/128"),  # Akamai
    ip_network("fe80::a9fe:a9fe/128"),  # OpenStack
)
