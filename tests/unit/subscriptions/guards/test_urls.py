from ipaddress import IPv4Address, IPv6Address, ip_network

import httpx
import pytest
import yarl
from hypothesis import example, given
from hypothesis import strategies as st

from subscriptions.guards.urls import ANY_PORT, Policy, RefusedTarget, check_addresses, parse_target

CLOSED = Policy()
WITH_HTTP = Policy(allow_http=True, allowed_ports=ANY_PORT)
LOOPBACK_OPEN = Policy(allowed_networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
ALL_OPEN = Policy(allowed_networks=(ip_network("0.0.0.0/0"), ip_network("::/0")))

PUBLIC = "93.184.215.14"
PUBLIC_HEX = f"{int(IPv4Address(PUBLIC)) >> 16:x}:{int(IPv4Address(PUBLIC)) & 0xFFFF:x}"
PUBLIC_V6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"


def refusal(url: str, policy: Policy = WITH_HTTP) -> str:
    with pytest.raises(RefusedTarget) as caught:
        parse_target(url, policy=policy)
    return caught.value.code


def is_refused(address: str, policy: Policy = CLOSED) -> bool:
    try:
        check_addresses([address], scheme="https", port=443, policy=policy)
    except RefusedTarget as refused:
        return refused.code == "address_not_allowed"
    return False


def wrappings(v4: str) -> dict[str, str]:
    """Every IPv6 spelling that takes a packet to this IPv4 address on some network."""
    number = int(IPv4Address(v4))
    high, low = number >> 16, number & 0xFFFF
    a, b, c, d = IPv4Address(v4).packed
    inverted = number ^ 0xFFFF_FFFF
    return {
        "mapped": f"::ffff:{v4}",
        "compatible": f"::{v4}",
        "translated": f"::ffff:0:{v4}",
        "nat64": f"64:ff9b::{v4}",
        "local nat64, 96-bit prefix": f"64:ff9b:1::{v4}",
        "local nat64, 48-bit prefix": f"64:ff9b:1:{high:x}:{c:x}:{d << 8:x}::",
        "local nat64, 56-bit prefix": f"64:ff9b:1:{a:x}:{b:x}:{c << 8 | d:x}::",
        "local nat64, 64-bit prefix": f"64:ff9b:1:0:{a:x}:{b << 8 | c:x}:{d << 8:x}:0",
        "6to4": f"2002:{high:x}:{low:x}::1",
        "teredo client": f"2001:0:{PUBLIC_HEX}:8000:63bf:{inverted >> 16:x}:{inverted & 0xFFFF:x}",
        "teredo server": f"2001:0:{high:x}:{low:x}:8000:63bf:f7f7:f7f7",
        "isatap": f"2a00:1450:4001:800:0:5efe:{high:x}:{low:x}",
        "isatap, unique": f"2a00:1450:4001:800:200:5efe:{high:x}:{low:x}",
    }


REFUSED_V4 = [
    *("0.0.0.0", "0.255.255.255"),
    *("10.0.0.0", "10.255.255.255"),
    *("100.64.0.0", "100.127.255.255", "100.100.100.200"),
    *("127.0.0.1", "127.255.255.255"),
    "168.63.129.16",
    *("169.254.0.1", "169.254.169.254", "169.254.170.2"),
    *("172.16.0.0", "172.31.255.255"),
    *("192.0.0.0", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.31.196.1", "192.52.193.1", "192.175.48.1"),
    *("192.168.0.0", "192.168.255.255"),
    *("198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
]

REFUSED_V6 = [
    *("::", "::1", "::2"),
    *("100::1", "1fff::1"),
    *("2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1", "2001:db8::1", "2002::1"),
    *("2620:4f:8000::1", "3ffe::1", "3fff::1", "3fff:fff::1"),
    *("4000::1", "5f00::1", "7fff::1", "8000::1", "e000::1"),
    *("fc00::1", "fd00:ec2::254", "fd20:ce::254", "fdff::1"),
    *("fe00::1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1"),
    *("ff02::1", "ffff::1"),
]


@pytest.mark.parametrize("address", [*REFUSED_V4, *REFUSED_V6])
def test_s01_every_special_address_is_refused(address: str) -> None:
    assert is_refused(address)


@pytest.mark.parametrize("v4", [*REFUSED_V4, PUBLIC])
def test_s01_an_address_wrapped_in_another_is_refused_whatever_it_wraps(v4: str) -> None:
    assert [name for name, address in wrappings(v4).items() if not is_refused(address)] == []


@pytest.mark.parametrize(
    "address",
    [
        *(PUBLIC, "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
        *("128.0.0.1", "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
        *("192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
        *("203.0.112.255", "203.0.114.0", "223.255.255.255"),
        *(PUBLIC_V6, "2001:200::1", "2001:4860:4860::8888", "2a00:1450:4001:800::200e", "2003::1", "3ffd::1"),
    ],
)
def test_public_addresses_right_beside_the_refused_ones_pass(address: str) -> None:
    assert not is_refused(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_s01_no_ipv4_address_that_python_calls_private_passes(address: IPv4Address) -> None:
    if not is_refused(str(address)):
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**128 - 1).map(IPv6Address) | st.integers(2**125, 2**126 - 1).map(IPv6Address))
def test_s01_no_ipv6_address_outside_the_space_handed_out_passes(address: IPv6Address) -> None:
    if not is_refused(str(address)):
        assert address.is_global
        assert int(address) >> 125 == 1


def test_s06_a_refusal_does_not_say_what_a_name_resolved_to() -> None:
    with pytest.raises(RefusedTarget) as caught:
        check_addresses(["10.20.30.40"], scheme="https", port=443, policy=CLOSED)
    assert "10.20" not in str(caught.value)


def test_s02_one_refused_answer_refuses_the_name() -> None:
    with pytest.raises(RefusedTarget, match="do not deliver"):
        check_addresses([PUBLIC, PUBLIC_V6, "10.0.0.1"], scheme="https", port=443, policy=CLOSED)
    check_addresses([PUBLIC, PUBLIC_V6], scheme="https", port=443, policy=CLOSED)


@pytest.mark.parametrize("answers", [[], ["not an address"], [PUBLIC, ""]])
def test_s02_answers_that_are_none_at_all_refuse_the_name(answers: list[str]) -> None:
    with pytest.raises(RefusedTarget):
        check_addresses(answers, scheme="https", port=443, policy=ALL_OPEN)


def test_an_opened_ipv4_network_opens_its_mapped_form_and_no_other_wrapping() -> None:
    opened = {name for name, address in wrappings("127.0.0.1").items() if not is_refused(address, LOOPBACK_OPEN)}
    assert opened == {"mapped"}
    assert not is_refused("127.0.0.1", LOOPBACK_OPEN)
    assert not is_refused("::1", LOOPBACK_OPEN)
    assert is_refused("10.0.0.1", LOOPBACK_OPEN)


def test_an_opened_wrapper_opens_nothing_refused_inside_it() -> None:
    policy = Policy(allowed_networks=(ip_network("64:ff9b::/96"),))
    assert not is_refused(f"64:ff9b::{PUBLIC}", policy)
    assert is_refused("64:ff9b::10.0.0.1", policy)


@pytest.mark.parametrize(
    "v4", ["169.254.169.254", "169.254.170.2", "169.254.0.23", "168.63.129.16", "100.100.100.200", "192.0.0.192"]
)
def test_s05_metadata_services_stay_refused_with_every_network_opened(v4: str) -> None:
    assert is_refused(v4, ALL_OPEN)
    assert [name for name, address in wrappings(v4).items() if not is_refused(address, ALL_OPEN)] == []


@pytest.mark.parametrize(
    "v6", ["fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1"]
)
def test_s05_metadata_services_on_ipv6_stay_refused_too(v6: str) -> None:
    assert is_refused(v6, ALL_OPEN)
    assert not is_refused("fd00:1234::1", ALL_OPEN)


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0177.0.0.1", "0x7f000001", "0x7f.1", "127.1", "127.0.1", "0X7F.0.0.1", "127.0.0.0x1"),
        *("127.0.0.1.", "127.0.0.01", "127.0.0.256", "127.0.0.1.1", "1.2.3", "0", "0x"),
        *("%31%32%37.0.0.1", "local%68ost", "[fe80::1%25eth0]", "[fe80::1%eth0]"),
        *("[127.0.0.1]", "[::1", "::1]", "[]", "[::g]", "[::1]x", "[[::1]]", "[v1.a]", "::1"),
        *("", ".", "..", "a..b", ".a", "example.com.", "-a.com", "a-.com", "a,b.com", "a;b", "a&b", "a+b", "*.com"),
        *("a" * 64 + ".com", ".".join(["a" * 63] * 4) + ".com", "example.123", "example.0x7f"),
    ],
)
def test_s07_a_host_that_is_no_plain_name_or_address_is_refused(host: str) -> None:
    assert refusal(f"https://{host}/") in {"host_invalid", "url_invalid", "port_not_allowed"}


@pytest.mark.parametrize("host", ["１２７.0.0.1", "127。0。0。1", "①②⑦.⓪.⓪.①", "bücher.example", "ⓔxample.com"])
def test_s07_characters_outside_ascii_are_refused_with_a_hint(host: str) -> None:
    with pytest.raises(RefusedTarget, match="punycode") as caught:
        parse_target(f"https://{host}/", policy=CLOSED)
    assert caught.value.code == "url_not_ascii"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.com/", "scheme_not_allowed"),
        ("file:///etc/passwd", "scheme_not_allowed"),
        ("javascript:alert(1)", "scheme_not_allowed"),
        ("//example.com/", "scheme_not_allowed"),
        ("example.com/hook", "scheme_not_allowed"),
        ("https:/example.com/", "scheme_not_allowed"),
        ("https:example.com", "scheme_not_allowed"),
        ("", "scheme_not_allowed"),
        ("http:///x", "host_invalid"),
        ("https://?x", "host_invalid"),
        ("https://:443/", "host_invalid"),
        ("https://user@example.com/", "userinfo_not_allowed"),
        ("https://user:secret@example.com/", "userinfo_not_allowed"),
        ("https://@example.com/", "userinfo_not_allowed"),
        ("https://example.com:443@127.0.0.1/", "userinfo_not_allowed"),
        ("https://example.com/#top", "fragment_not_allowed"),
        ("https://example.com#@127.0.0.1/", "fragment_not_allowed"),
        ("https://good.example\\@127.0.0.1/", "url_invalid"),
        ("https://example.com\\.evil.example/", "url_invalid"),
        ("https://example.com/a b", "url_invalid"),
        (" https://example.com/", "url_invalid"),
        ("https://example.com/\r\nHost: x", "url_invalid"),
        ("https://exa\tmple.com/", "url_invalid"),
        ("https://example.com/\x00", "url_invalid"),
        ("https://example.com/{id}", "url_invalid"),
        ("https://example.com/%zz", "url_invalid"),
        ("https://example.com/%4", "url_invalid"),
        ("https://127.0.0.1:80:80/", "port_not_allowed"),
        ("https://example.com:0/", "port_not_allowed"),
        ("https://example.com:65536/", "port_not_allowed"),
        ("https://example.com:99999/", "port_not_allowed"),
        ("https://example.com:-1/", "port_not_allowed"),
        ("https://example.com:+443/", "port_not_allowed"),
        ("https://example.com:0443/", "port_not_allowed"),
        ("https://example.com:/", "port_not_allowed"),
        ("https://example.com:http/", "port_not_allowed"),
        ("https://example.com/" + "a" * 2029, "url_too_long"),
    ],
)
def test_s07_urls_that_parsers_disagree_about_are_refused(url: str, code: str) -> None:
    assert refusal(url) == code


def test_s07_plain_http_needs_the_setting() -> None:
    assert refusal("http://example.com/", CLOSED) == "scheme_not_allowed"
    assert parse_target("http://example.com/", policy=Policy(allow_http=True)).port == 80


@pytest.mark.parametrize("port", [22, 25, 3306, 5432, 6379, 9200])
def test_s07_ports_outside_the_list_are_refused(port: int) -> None:
    with pytest.raises(RefusedTarget, match="80 or 443 or 8080 or 8443") as caught:
        parse_target(f"https://example.com:{port}/", policy=CLOSED)
    assert caught.value.code == "port_not_allowed"
    assert parse_target(f"https://example.com:{port}/", policy=Policy(allowed_ports=ANY_PORT)).port == port


def test_s07_an_empty_port_list_allows_no_port() -> None:
    assert refusal("https://example.com/", Policy(allowed_ports=frozenset())) == "port_not_allowed"


def test_literals_are_judged_when_parsed() -> None:
    assert refusal("https://127.0.0.1/", CLOSED) == "address_not_allowed"
    assert refusal("https://[::ffff:127.0.0.1]/", CLOSED) == "address_not_allowed"
    assert parse_target(f"https://{PUBLIC}/", policy=CLOSED).address == IPv4Address(PUBLIC)


def test_inside_an_opened_network_plain_http_and_any_port_are_fine() -> None:
    assert parse_target("http://127.0.0.1:5001/", policy=LOOPBACK_OPEN).port == 5001
    assert refusal("http://1.1.1.1:5001/", LOOPBACK_OPEN) == "scheme_not_allowed"
    assert refusal("https://1.1.1.1:5001/", LOOPBACK_OPEN) == "port_not_allowed"


def test_a_name_waits_for_its_answers_where_networks_are_opened() -> None:
    target = parse_target("http://localhost:5001/", policy=LOOPBACK_OPEN)
    assert target.address is None
    check_addresses(["127.0.0.1", "::1"], scheme="http", port=5001, policy=LOOPBACK_OPEN)
    for answers in ([PUBLIC], ["127.0.0.1", PUBLIC]):
        with pytest.raises(RefusedTarget) as caught:
            check_addresses(answers, scheme="http", port=5001, policy=LOOPBACK_OPEN)
        assert caught.value.code == "scheme_not_allowed"


def test_a_name_does_not_wait_where_none_are() -> None:
    assert refusal("http://localhost:5001/", CLOSED) == "scheme_not_allowed"
    assert refusal("https://localhost:5001/", CLOSED) == "port_not_allowed"


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("HTTPS://Hooks.EXAMPLE.com", "https://hooks.example.com/"),
        ("https://example.com:443/a", "https://example.com/a"),
        ("http://example.com:80", "http://example.com/"),
        ("https://example.com:8443?a[]=1&b=%2F", "https://example.com:8443/?a[]=1&b=%2F"),
        ("https://xn--bcher-kva.example/Pfad/", "https://xn--bcher-kva.example/Pfad/"),
        ("https://my_host.example/", "https://my_host.example/"),
        ("https://[2606:2800:021F:CB07::0:1]:8443/x", "https://[2606:2800:21f:cb07::1]:8443/x"),
    ],
)
def test_a_url_has_one_spelling(url: str, spelled: str) -> None:
    target = parse_target(url, policy=Policy(allow_http=True))
    assert target.url == spelled
    assert parse_target(spelled, policy=Policy(allow_http=True)) == target


LOOKS_LIKE_A_HOST = st.one_of(
    st.from_regex(r"[A-Za-z0-9_.%:@\[\]\\-]{0,30}", fullmatch=True),
    st.from_regex(r"[0-9a-fx]{1,10}(\.[0-9a-fx]{1,4}){0,4}\.?", fullmatch=True),
    st.from_regex(r"\[[0-9a-fA-F:.%]{2,20}\]", fullmatch=True),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
)
LOOKS_LIKE_A_URL = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["https://", "http://", "HTTP://", "https:///", "https:\\\\", "//", "https:/"]),
    LOOKS_LIKE_A_HOST,
    st.sampled_from(["", ":", ":80", ":443", ":8443", ":0443", ":99999", ":80:80"]),
    st.text(st.characters(min_codepoint=0, max_codepoint=0x3FF), max_size=12)
    | st.from_regex(r"[/?][!-~]{0,20}", fullmatch=True),
)


@given(LOOKS_LIKE_A_URL | st.text(max_size=40))
@example("https://good.example\\@127.0.0.1/")
@example("https://[::ffff:1.1.1.1]:8443/?x=/@evil")
def test_what_was_judged_is_what_is_dialled(url: str) -> None:
    try:
        target = parse_target(
            url, policy=Policy(allow_http=True, allowed_ports=ANY_PORT, allowed_networks=ALL_OPEN.allowed_networks)
        )
    except RefusedTarget:
        return
    dialled = yarl.URL(target.url, encoded=True)
    assert (dialled.scheme, dialled.raw_host, dialled.port) == (target.scheme, target.host, target.port)
    assert (dialled.user, dialled.password, dialled.raw_fragment) == (None, None, "")
    carried = httpx.URL(target.url)
    assert (carried.scheme, carried.host, carried.port or dialled.port) == (target.scheme, target.host, target.port)
