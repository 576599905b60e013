"""`python -m webhooks_platform.web.lasting_granian …`: granian with its own options, but one that lasts.

granian takes two deaths of a worker within 5.5 seconds for a crash loop and ends, with all its workers: a killer of
processes that runs out of memory twice takes the whole server down. Here a loop is ten deaths within half a minute.
"""

from collections import deque

from granian import cli
from granian.server import Server

_LOOP_DEATHS = 10
_LOOP_SECONDS = 30.0


class Deaths(dict[int, float]):
    """When granian replaced which worker. It asks when one was last replaced, and hears so only in a crash loop."""

    def __init__(self) -> None:
        super().__init__()
        self._latest: deque[float] = deque(maxlen=_LOOP_DEATHS)

    def __setitem__(self, worker: int, at: float) -> None:
        self._latest.append(at)
        super().__setitem__(worker, at)

    def get(self, worker: int, default: float = 0.0) -> float:  # type: ignore[override]
        is_loop = len(self._latest) == _LOOP_DEATHS and self._latest[-1] - self._latest[0] < _LOOP_SECONDS
        return super().get(worker, default) if is_loop else default

    def clear(self) -> None:
        """granian forgets them with each death; here they count together."""


class LastingServer(Server):  # type: ignore[misc, valid-type]
    """granian's own, which counts deaths differently."""

    @property
    def respawned_wrks(self) -> Deaths:
        return self._deaths

    @respawned_wrks.setter
    def respawned_wrks(self, _: object) -> None:
        self._deaths = Deaths()


if __name__ == "__main__":
    cli.Server = LastingServer  # type: ignore[attr-defined]
    cli.entrypoint()  # type: ignore[no-untyped-call]
