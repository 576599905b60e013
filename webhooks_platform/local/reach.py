"""Is it there? Asked of servers that are not ours, and of ports before and after we use them. Passwords stay unsaid."""

import socket
from urllib.parse import urlsplit

import environ
import psycopg
import redis

from webhooks_platform.local.folder import SetupError

CONNECT_SECONDS = 3


def database(url: str) -> str:
    """Why the database cannot be used, or nothing."""
    try:
        config = environ.Env.db_url_config(url)
    except (ValueError, KeyError, environ.ImproperlyConfigured):
        raise SetupError("DATABASE_URL is not of the form postgres://user:password@host:5432/name.") from None
    if not str(config.get("ENGINE", "")).endswith(("postgresql", "postgis")):
        raise SetupError("DATABASE_URL must name a PostgreSQL database (postgres://user:password@host:5432/name).")
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    given = {names[key]: config[key] for key in names if config.get(key)} | config.get("OPTIONS", {})
    try:
        psycopg.connect(**given, connect_timeout=CONNECT_SECONDS).close()
    except psycopg.OperationalError as error:
        return str(error).strip()
    return ""


def broker(url: str) -> str:
    """Why the broker cannot be used, or nothing."""
    try:
        client = redis.Redis.from_url(url, socket_timeout=CONNECT_SECONDS, socket_connect_timeout=CONNECT_SECONDS)
    except ValueError:
        raise SetupError("REDIS_URL is not of the form redis://:password@host:6379/0.") from None
    try:
        client.ping()
    except redis.RedisError as error:
        return str(error)
    finally:
        client.close()
    return ""


def is_free(host: str, port: int) -> bool:
    """True if we can listen there. (Our web server would share a taken port without a word: it reuses ports.)"""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError:
        raise SetupError(f"HOST={host} is not an address of this machine.") from None
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections of an earlier run that are still winding down do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen()
        except PermissionError:
            raise SetupError(f"Port {port} needs root. Choose one above 1023: PORT=8000 make up") from None
        except OSError:
            return False
    return True


def listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
