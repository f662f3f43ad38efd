"""The kernel's setting net.ipv4.conf.*.route_localnet: packets may pass between 127.0.0.0/8 and other hosts.

Without it the kernel drops them before anybody sees them: whoever is led from outside to a broker that listens on
127.0.0.1 waits until its connection times out. Blocking. Invariant: what `switch_on` has changed, `restore` changes
back.
"""

from __future__ import annotations

from pathlib import Path

from proxy.errors import ConfigurationError

_FOLDER = Path("/proc/sys/net/ipv4/conf")
COMMAND = "sysctl -w net.ipv4.conf.all.route_localnet=1"


class RouteLocalnet:
    """The setting route_localnet of this process' network namespace."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        self._changed = False

    def is_on(self) -> bool:
        """Return True if it is on for all network devices, or for one that leads to other hosts: whoever chose that one
        knows why."""
        files = self._folder.glob("*/route_localnet")
        return any(_read(file) == "1" for file in files if file.parent.name not in ("lo", "default"))

    def switch_on(self) -> None:
        """Switch it on, unless it is. Raises ConfigurationError with the command that does it."""
        if self.is_on():
            return
        try:
            self._write("1")
        except OSError as error:
            raise ConfigurationError(
                "net.ipv4.conf.all.route_localnet: expected 1, since a way around the sidecar leads between loopback "
                f"and another host; found 0, and setting it failed ({error.strerror}); run as root: {COMMAND}"
            ) from error
        self._changed = True

    def restore(self) -> None:
        """Restore the former value. Raises ConfigurationError."""
        if not self._changed:
            return
        try:
            self._write("0")
        except OSError as error:
            raise ConfigurationError(
                f"net.ipv4.conf.all.route_localnet: expected to set it to 0, as it was: {error.strerror}"
            ) from error
        self._changed = False

    def _write(self, value: str) -> None:
        (self._folder / "all" / "route_localnet").write_text(f"{value}\n", "utf-8")


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except OSError:  # the device is gone, and its folder with it
        return ""
