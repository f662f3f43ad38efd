"""The source of a release: that it is a commit, where it can be fetched, and what changed since the last tag."""

from __future__ import annotations

from deploy.commit import commit, run, version


class ReleaseError(Exception):
    """Says in one sentence what stands in the way of a release, and what to do."""


def require_committed() -> None:
    """Raise ReleaseError where files differ from the commit: that release could not be built again."""
    if changed := run("git", "status", "--porcelain").splitlines():
        more = f" and {len(changed) - 1} more" if changed[1:] else ""
        raise ReleaseError(f"changed since the commit that would be released: {changed[0][3:]}{more}; commit or stash")


def source_address() -> str | None:
    """Return where others can fetch it from, as pip and SLSA write it; None where it was cloned from a folder."""
    address = run("git", "config", "--default", "", "--get", "remote.origin.url").strip()
    return f"git+{address}" if "://" in address and not address.startswith("file:") else None


def changes() -> str:
    """List the changes since the last tag: the first line of each commit."""
    tags = run("git", "tag", "--list", "--merged", "HEAD", "--sort=-creatordate").split()
    since = f"{tags[0]}..HEAD" if tags else "HEAD"
    lines = run("git", "log", "--no-merges", "--format=- %s", since)
    return f"# {version()}\n\nCommit {commit()}{f', since {tags[0]}' if tags else ''}.\n\n{lines}"
