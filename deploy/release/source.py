"""The source of a release: that it is a commit, where it can be fetched, and what changed since the last tag."""

from __future__ import annotations

import re

from deploy.commit import ROOT, commit, run, version


class ReleaseError(Exception):
    """Says in one sentence what stands in the way of a release, and what to do."""


def require_committed() -> None:
    """Raise ReleaseError where files differ from the commit: that release could not be built again."""
    if changed := run("git", "status", "--porcelain").splitlines():
        more = f" and {len(changed) - 1} more" if changed[1:] else ""
        raise ReleaseError(f"changed since the commit that would be released: {changed[0][3:]}{more}; commit or stash")


def changelog_entry(changelog: str, of: str) -> str:
    """Return what CHANGELOG.md says of a version. Raises ReleaseError where that is nothing."""
    found = re.search(rf"^## \[{re.escape(of)}\].*?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    entry = "" if found is None else found[1].strip()
    if not re.search(r"^- ", entry, re.MULTILINE):
        raise ReleaseError(
            f"CHANGELOG.md: expected an entry ## [{of}] with what changes, found none; see CONTRIBUTING.md"
        )
    return entry


def source_address() -> str | None:
    """Return where others can fetch it from, as pip and SLSA write it; None where it was cloned from a folder."""
    address = run("git", "config", "--default", "", "--get", "remote.origin.url").strip()
    return f"git+{address}" if "://" in address and not address.startswith("file:") else None


def changes() -> str:
    """Return the changelog's entry, and the changes since the last tag: the first line of each commit. Raises
    ReleaseError where there is no entry."""
    entry = changelog_entry((ROOT / "CHANGELOG.md").read_text("utf-8"), version())
    tags = run("git", "tag", "--list", "--merged", "HEAD", "--sort=-creatordate").split()
    lines = run("git", "log", "--no-merges", "--format=- %s", f"{tags[0]}..HEAD" if tags else "HEAD")
    since = f", since {tags[0]}" if tags else ""
    return f"# {version()}\n\n{entry}\n\n## Commits\n\nCommit {commit()}{since}.\n\n{lines}"
