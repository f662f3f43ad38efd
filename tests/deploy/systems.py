"""Operating systems as debootstrap installs them: the image's base, and machines that have next to nothing."""

from __future__ import annotations

from typing import NamedTuple


class System(NamedTuple):
    """What debootstrap is asked for, and what apt finds there afterwards."""

    image: str
    suite: str
    mirror: str
    mirror_variable: str
    """Of the environment: names another mirror."""
    packages: tuple[str, ...]
    components: str = "main"
    updates: tuple[str, ...] = ()
    """Further suites that an installed system has in its list."""
    options: tuple[str, ...] = ()
    script: tuple[str, ...] = ()

    def sources(self, mirror: str) -> str:
        """The content of sources.list."""
        return "".join(f"deb {mirror} {suite} {self.components}\n" for suite in (self.suite, *self.updates))


_DEBIAN = ("http://deb.debian.org/debian", "DEBIAN_MIRROR")
_UBUNTU = ("http://archive.ubuntu.com/ubuntu", "UBUNTU_MIRROR")
_BARE = ("git", "python3", "make", "ca-certificates")
"""What somebody has who clones this repository; Debian's git only recommends the certificates that its clone needs."""

BASE = System(
    "localhost/debian-python:bookworm-3.11", "bookworm", *_DEBIAN, ("python3", "python3-venv", "ca-certificates")
)
BARE = {
    "debian 12": System("localhost/bare-debian:12", "bookworm", *_DEBIAN, _BARE, updates=("bookworm-updates",)),
    "debian 13": System("localhost/bare-debian:13", "trixie", *_DEBIAN, _BARE, updates=("trixie-updates",)),
    "ubuntu 24.04": System(
        "localhost/bare-ubuntu:24.04", "noble", *_UBUNTU, _BARE, "main universe", ("noble-updates",),
        # Debian's debootstrap has neither Ubuntu's keys nor the names of its later suites, whose script is one.
        options=("--no-check-gpg", "--components=main,universe"), script=("gutsy",),
    ),
}  # fmt: skip
