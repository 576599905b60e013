"""What a newcomer reads first: where everything is, and the line that emits the next event."""

from dataclasses import dataclass

from webhooks_platform.local.environment import LocalOptions
from webhooks_platform.local.screen import BOLD, DIM, Screen, short

WIDTH = 78


@dataclass(frozen=True)
class Banner:
    options: LocalOptions
    seconds: float
    outcome: str
    admin: str
    curl: str
    networks: str


def show(screen: Screen, banner: Banner) -> None:
    options = banner.options
    rule = screen.paint(DIM, "─" * WIDTH)
    rows = [
        ("API", f"{options.url}/api/v1/   described at {options.url}/api/docs/"),
        ("Admin", f"{options.url}/admin/   {banner.admin}"),
        ("Portal", f"{options.url}/portal/   by a link: Admin, Consumers, acme, Portal link"),
        ("Health", f"{options.url}/healthz   {options.url}/readyz"),
        ("Receiver", f"{options.receiver_url}   runs examples/python/demo_receiver.py"),
        ("Data", f"{short(options.data_dir)}/   logs in {short(options.data_dir / 'logs')}/"),
    ]
    lines = [
        "",
        f"  {rule}",
        f"  {screen.paint(BOLD, 'The webhook platform is up')} {screen.paint(DIM, f'({banner.seconds:.1f} s)')}",
        "",
        *(f"  {screen.paint(DIM, f'{name:<9}')} {text}" for name, text in rows),
        "",
        f"  {banner.outcome}",
        *(f"  {line}" for line in _network_lines(banner.networks)),
        "",
        f"  {screen.paint(BOLD, 'Emit the next event')} from another terminal:",
        "",
        banner.curl,
        "",
        f"  Its arrival shows below. {screen.paint(BOLD, 'Ctrl-C')} stops everything; the data is kept.",
        f"  {rule}",
        "",
    ]
    screen.line("\n".join(lines))


def _network_lines(networks: str) -> list[str]:
    if not networks:
        return ["Private and loopback targets are refused."]
    return [
        "Private and loopback targets: loopback is allowed for this demo",
        f"(DELIVERY_ALLOWED_NETWORKS={networks}), the rest is refused.",
    ]
