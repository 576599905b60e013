"""Part of send: our end of one connection. Reads an answer so that its verdict does not depend on how TCP cut it.

aiohttp's parser takes whatever bytes arrived, and bytes that are not HTTP take down everything it was given with them.
So it gets the head by itself, then the body, and never what comes after the answer: that only means that the connection
is not used again.
"""

from collections.abc import Iterator

from aiohttp import StreamReader

from deliveries.pump.aiohttp_internals import HttpProcessingError, ResponseHandler

# The most that the head of an answer may be (bytes): each header, and all of it.
MAX_HEADER = 64 * 1024
MAX_HEADERS = 1000
MAX_HEAD = 256 * 1024
# Interim answers (1xx) that are read before an answer; reading them without end would be all that a worker does.
MAX_INTERIM = 10
# How much of an answer is remembered, to be shown if it turns out to be none (bytes).
REMEMBERED = 2048
# A segment beyond this carries a body that nobody reads to its end (bytes).
_LARGE_SEGMENT = 64 * 1024

_END = b"\r\n\r\n"
_LENGTH = b"content-length"


class Wire(ResponseHandler):
    """One connection to a receiver: aiohttp's protocol, which also remembers what the connection was used for.

    Made by the connector for each connection, used by the transport for one request after the other.
    """

    # Whether it has carried a request.
    used = False
    # The first bytes of the answer to the current request.
    received = b""
    _peer: str | None = None
    # Whether the head of the answer is complete; interim answers do not count.
    _has_head = False
    _head_count = 0
    # How its body comes, and how much of it there was, stray bytes included.
    _is_chunked = False
    _body_size = 0
    # Where the head is taken line by line.
    _lines: "HeadLines | None" = None

    def start_request(self) -> bool:
        """Get ready for an answer; says whether the connection has carried a request before."""
        reused, self.used = self.used, True
        self.received, self._has_head, self._head_count, self._body_size, self._lines = b"", False, 0, 0, None
        # Nothing is unpacked (a bomb stays small), and a fast receiver cannot fill our memory before it is cut off.
        self.set_response_params(
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=2**16,
            max_line_size=MAX_HEADER,
            max_field_size=MAX_HEADER,
            max_headers=MAX_HEADERS,
        )
        return reused

    def peer_address(self) -> str | None:
        if self._peer is None and self.transport is not None:
            # There is no peer any more when the receiver has reset the connection already.
            self._peer = (self.transport.get_extra_info("peername") or [None])[0]
        return self._peer

    def data_received(self, data: bytes) -> None:
        # No data is how aiohttp resumes a parser. Without a parser nobody has asked yet, and aiohttp keeps the data.
        if not data or self._parser is None:
            super().data_received(data)
            return
        if not self._has_head and len(self.received) < REMEMBERED:
            self.received = (self.received + data)[:REMEMBERED] if self.received else data[:REMEMBERED]
        rest = data
        while rest and not self._has_head and self._exception is None:
            rest = self._take_head(rest)
        if rest and self._has_head:
            self._take_body(rest)

    def _take_head(self, data: bytes) -> bytes:
        """What is left of the data when the head, or this piece of it, was parsed."""
        buffer = self._buffer
        before = len(buffer)
        head, end, rest = data.partition(_END) if self._lines is None else (b"", b"", b"")
        if end and is_ordinary(head):
            super().data_received(head + end)
        else:
            rest = self._take_lines(data)
        if len(buffer) > before:
            message = buffer[-1][0][0]
            # A 100 or a 103 comes before the answer; a 101 is one.
            if not 100 <= message.code <= 199 or message.code == 101:
                self._has_head, self._is_chunked = True, message.chunked
            else:
                self._expect_another_head()
        elif rest:
            self._expect_another_head()  # so far, empty lines
        return rest

    def _expect_another_head(self) -> None:
        self._lines = None
        self._head_count += 1
        if self._head_count > MAX_INTERIM:
            self._fail("one 1xx after another, and no answer")

    def _take_lines(self, data: bytes) -> bytes:
        """One line after the other: the head came in pieces, or the parser would not take it as it is."""
        if self._lines is None:
            self._lines = HeadLines()
        lines, before = self._lines, len(self._buffer)
        for piece in lines.add(data):
            super().data_received(piece)
            if self._exception is not None or len(self._buffer) > before:
                break
        if lines.excess and self._exception is None:
            self._fail(lines.excess)
        return lines.rest(data)

    def _take_body(self, data: bytes) -> None:
        body = self._payload
        if body is None or body.is_eof():
            # The answer is complete, and some servers send a 204 with a body: stray bytes.
            self.force_close()
            return
        if self._is_chunked and len(data) <= _LARGE_SEGMENT:
            self._take_chunks(data, body)
            return
        self._body_size += len(data)
        super().data_received(data)
        if self._body_size > body.total_bytes:
            self.force_close()
        if self._exception is not None:
            self._tell_reader(body)

    def _take_chunks(self, data: bytes, body: StreamReader) -> None:
        """The last byte by itself: should the answer be complete without it, then it is a stray one."""
        if len(data) > 1:
            super().data_received(data[:-1])
        if body.is_eof():
            self.force_close()
        elif self._exception is None:
            super().data_received(data[-1:])
        self._tell_reader(body)

    def _tell_reader(self, body: StreamReader) -> None:
        """aiohttp tells of bytes it cannot parse only who waits for a head; who reads a body would wait in vain."""
        if isinstance(self._exception, HttpProcessingError) and not body.is_eof():
            body.set_exception(self._exception)

    def _fail(self, word: str) -> None:
        if self.transport is not None:
            self.transport.close()
        self.set_exception(HttpProcessingError(message=word))


def parse_failure(message: str) -> str:
    """What the parser says is wrong, without the bytes it quotes."""
    if message.startswith("Got more than"):
        return f"a header of more than {MAX_HEADER // 1024} KiB"
    if message.startswith("Too many headers"):
        return f"more than {MAX_HEADERS:,} headers"
    if message.startswith("Invalid HTTP header"):
        return "a header that is not allowed"
    return message.removeprefix("Bad status line:").strip().partition(":\n")[0]


def is_ordinary(head: bytes) -> bool:
    """Whether the parser takes it as it is: its lines end in CR LF, and its length is given once, if at all."""
    if b"\n\n" in head or b"\n\r\n" in head:
        return False
    lowered = head.lower()
    start = lowered.find(_LENGTH)
    if start < 0:
        return True
    return lowered.find(_LENGTH, start + 1) < 0 and lowered.find(b",", start, lowered.find(b"\n", start)) < 0


class HeadLines:
    """The head of one answer, line by line, as the parser shall see it. Lengths given twice are given once.

    Holds the line whose end has not arrived yet, and counts, since the parser would read on without end.
    """

    def __init__(self) -> None:
        # Why no more is taken.
        self.excess = ""
        self._held = bytearray()
        self._length: bytes | None = None
        self._count = 0
        self._size = 0
        self._taken = 0

    def add(self, data: bytes) -> Iterator[bytes]:
        """Pieces for the parser. Ask for `rest` when it has a head, and for the next piece while it has none."""
        self._taken = 0
        while not self.excess and (end := data.find(b"\n", self._taken) + 1):
            line = bytes(self._held) + data[self._taken : end]
            self._held.clear()
            self._take(end - self._taken)
            self._count += 1
            if self._count > MAX_HEADERS + 2:  # with the first line, and the empty one
                self.excess = f"more than {MAX_HEADERS:,} headers"
            elif piece := self._checked(line):
                yield piece
        left = data[self._taken :]
        self._take(len(left))
        if left and not self.excess:
            yield from self._hold(left)

    def rest(self, data: bytes) -> bytes:
        return data[self._taken :]

    def _take(self, count: int) -> None:
        self._taken += count
        self._size += count
        if self._size > MAX_HEAD:
            self.excess = f"a head of more than {MAX_HEAD // 1024} KiB"

    def _hold(self, left: bytes) -> Iterator[bytes]:
        if self._count == 0:
            yield left  # of the first line: who does not speak HTTP is found out at its first bytes
            return
        self._held += left
        if len(self._held) > MAX_HEADER:
            self.excess = f"a header of more than {MAX_HEADER // 1024} KiB"

    def _checked(self, line: bytes) -> bytes:
        """Of equal lengths the first (RFC 9112, section 6.3). Lengths that differ are the parser's to refuse."""
        name, _, value = line.partition(b":")
        if name.lower() != _LENGTH or self._count == 1:
            return line
        values = {each.strip() for each in value.split(b",")}
        if len(values) > 1:
            return line
        [length] = values
        if length == self._length:
            return b""
        self._length = length
        return b"%b: %b\r\n" % (name, length)
