"""The proxies people run, with the configurations people give them; all from Debian.

Whatever is not written here is the program's default. Invariant: every one of them sets TCP_NODELAY, or does so by
default, as the sidecar does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .peer import MissingError, Peer, Place, program, said

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KIB256 = 256 * 1024


def haproxy_command(config: Path, listen: Mapping[str, str], *, settings: str = "", options: str = "") -> list[str]:
    """Write the configuration file of a HAProxy that goes on from each address of `listen` to another.

    Raises MissingError.
    """
    path = program("haproxy", "haproxy")
    sections = (
        f"listen kafka-{number}\n  bind {here}\n  server leader {there}\n"
        for number, (here, there) in enumerate(listen.items())
    )
    config.write_text(
        f"global\n{settings}defaults\n  mode tcp\n{options}"
        f"  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n{''.join(sections)}"
    )
    return [path, "-f", str(config), "-db"]


def _haproxy(*, settings: str = "", options: str = "") -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        listen = {f"127.0.0.1:{place.port}": f"127.0.0.1:{place.leader}"}
        return haproxy_command(place.home / "haproxy.cfg", listen, settings=settings, options=options)

    return command


def haproxy_version() -> str:
    return "HAProxy " + said(r"version (\S+)", program("haproxy", "haproxy"), "-v")


def _nginx(*, buffers: str = "") -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        path = program("nginx", "nginx libnginx-mod-stream")
        module = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
        if not module.exists():
            raise MissingError(f"{module} is not here: apt-get install --no-install-recommends libnginx-mod-stream")
        config = place.home / "nginx.conf"
        config.write_text(
            f"load_module {module};\nuser root;\nworker_processes auto;\nerror_log {place.home}/error.log;\n"
            f"pid {place.home}/nginx.pid;\ndaemon off;\nevents {{ worker_connections 1024; }}\n"
            f"stream {{\n  proxy_timeout 1h;\n  tcp_nodelay on;\n{buffers}"
            f"  server {{ listen 127.0.0.1:{place.port}; proxy_pass 127.0.0.1:{place.leader}; }}\n}}\n"
        )
        return [path, "-p", str(place.home), "-c", str(config)]

    return command


def nginx_version() -> str:
    return "nginx " + said(r"nginx/(\S+)", program("nginx", "nginx"), "-v")


def _socat(*options: str) -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        listen = f"TCP-LISTEN:{place.port},bind=127.0.0.1,reuseaddr,fork,backlog=1024,nodelay"
        return [program("socat", "socat"), *options, listen, f"TCP:127.0.0.1:{place.leader},nodelay"]

    return command


def socat_version() -> str:
    return "socat " + said(r"socat version (\S+)", program("socat", "socat"), "-V")


SPLICE = "  option splice-request\n  option splice-response\n"
PROXIES = (
    Peer("haproxy", "defaults (16 KiB buffers)", _haproxy(), haproxy_version, quick=True),
    Peer("haproxy-256k", "tune.bufsize 262144", _haproxy(settings=f"  tune.bufsize {KIB256}\n"), haproxy_version),
    Peer(
        "haproxy-splice",
        "option splice-request, option splice-response",
        _haproxy(options=SPLICE),
        haproxy_version,
        quick=True,
    ),
    Peer("nginx", "stream, proxy_buffer_size 16k (default)", _nginx(), nginx_version),
    Peer("nginx-256k", "stream, proxy_buffer_size 256k", _nginx(buffers="  proxy_buffer_size 256k;\n"), nginx_version),
    Peer("socat", "defaults (8 KiB buffers), a process per connection", _socat(), socat_version),
    Peer("socat-256k", "-b 262144, a process per connection", _socat("-b", str(KIB256)), socat_version),
)
