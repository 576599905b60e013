"""deliveries/pump/aiohttp_internals.py against the aiohttp that is installed, and against the code that uses it."""

import ast
import asyncio
import inspect
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

import deliveries
from deliveries.pump.aiohttp_internals import INTERNALS, Connection, Internal, ResponseHandler
from deliveries.pump.connector import Connector
from deliveries.pump.wire import Wire

ROOM = Path(deliveries.__file__).parent
TABLE = ROOM / "pump" / "aiohttp_internals.py"


@pytest.mark.asyncio
@pytest.mark.parametrize("internal", INTERNALS, ids=lambda each: f"{each.owner.__name__}.{each.name}")
async def test_aiohttp_still_has_what_the_transport_relies_on(internal: Internal) -> None:
    where = f"aiohttp {aiohttp.__version__}: {internal.owner.__name__}.{internal.name}"
    needed = f"The transport needs it: {internal.why}. See {TABLE.name} for all of them."
    async with aiohttp.TCPConnector() as connector:
        made = {ResponseHandler: ResponseHandler(asyncio.get_running_loop()), aiohttp.TCPConnector: connector}
        holder = made.get(internal.owner, internal.owner)
        assert hasattr(holder, internal.name), f"{where} is gone. {needed}"
        if internal.parameters:
            takes = inspect.signature(getattr(holder, internal.name)).parameters
            missing = [name for name in internal.parameters if name not in takes]
            assert not missing, f"{where} takes no {', '.join(missing)} any more. {needed}"


@pytest.mark.asyncio
async def test_an_idle_connection_is_kept_with_its_time_in_a_queue_by_key() -> None:
    """What `Connector.idle` takes apart."""
    async with aiohttp.TCPConnector() as connector:
        loop = asyncio.get_running_loop()
        key = aiohttp.ClientRequest("POST", URL("http://a.example/"), loop=loop).connection_key
        protocol = ResponseHandler(loop)
        connector._acquired.add(protocol)
        Connection(connector, key, protocol, loop).release()
        [waiting] = connector._conns.values()
        [(kept, since)] = waiting
        assert (list(connector._conns), type(waiting), kept, type(since)) == ([key], deque, protocol, float)
        assert protocol not in connector._acquired
        connector._conns.clear()  # or closing would wait for a connection that was never made


def test_what_is_private_in_aiohttp_is_used_only_as_the_table_says() -> None:
    for ours in (Wire, Connector):
        theirs = {each.name for each in INTERNALS if issubclass(ours, each.owner)}
        used = {name for name in private_names(ours) if is_of_aiohttp(ours, name)}
        assert used <= theirs, f"{ours.__name__} uses {used - theirs}: add it to {TABLE.name}"


def test_only_the_table_imports_undocumented_modules() -> None:
    documented = {"aiohttp", "aiohttp.abc"}
    importers = {
        str(path.relative_to(ROOM))
        for path in ROOM.rglob("*.py")
        for name in imported_modules(path)
        if name.partition(".")[0] == "aiohttp" and name not in documented
    }
    assert importers == {"pump/aiohttp_internals.py"}


def private_names(ours: type) -> set[str]:
    tree = ast.parse(inspect.getsource(ours))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return {name for name in names | defined if name.startswith("_") and not name.startswith("__")}


def is_of_aiohttp(ours: type, name: str) -> bool:
    theirs = [base for base in ours.__mro__[1:] if base.__module__.startswith("aiohttp.")]
    return any(hasattr(base, name) or re.search(rf"self\.{name}\b", inspect.getsource(base)) for base in theirs)


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
