"""Archives whose bytes are decided by what is in them and by the commit, not by when and by whom they were packed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.commit import commit_seconds, run

if TYPE_CHECKING:
    from pathlib import Path


def pack(folder: Path, archive: Path) -> None:
    """Make an archive of what is in a folder: a .tar, or a .tar packed by gzip if it is called otherwise.

    Raises:
        CalledProcessError: tar or gzip failed.
    """
    names = sorted(path.name for path in folder.iterdir())
    plain = archive if archive.suffix == ".tar" else archive.with_suffix(".tar")
    same = ("--sort=name", f"--mtime=@{commit_seconds()}", "--owner=0", "--group=0", "--numeric-owner")
    # Layers of an image are 0600 here and 0644 there, by who runs the builder.
    run("tar", *same, "--mode=u+rw,go+r,go-w", "-C", folder, "-cf", plain, *names)
    if plain != archive:
        run("gzip", "-n", "-9", "-f", plain)
        plain.with_suffix(".tar.gz").rename(archive)
