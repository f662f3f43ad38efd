"""A root directory of one's own: this machine's, with folders of ours at the absolute paths that documents name.

Knows no program. Invariant: what is written below `/etc`, `/opt`, `/usr`, `/run` or at the root is
gone when the command ends, and nobody else sees it.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OWN = ("etc", "opt", "usr")
_SCRIPT = """
set -e
root=/mnt
mount -t tmpfs tmpfs "$root"
mkdir "$root/.upper"
for each in /*; do
  name=${each#/}
  if [ -L "$each" ]; then cp -P "$each" "$root/"
  elif [ -d "$each" ]; then
    mkdir "$root/$name"
    case $name in
      %(own)s)
        mkdir -p "$root/.upper/$name" "$root/.upper/work-$name"
        mount -t overlay overlay -o "lowerdir=$each,upperdir=$root/.upper/$name,workdir=$root/.upper/work-$name" \
          "$root/$name" ;;
      mnt) ;;
      run) mount -t tmpfs tmpfs "$root/run" ;;
      *) mount --rbind "$each" "$root/$name" ;;
    esac
  fi
done
%(places)s
exec chroot "$root" "$@"
"""


def own_root(places: Mapping[str, Path]) -> list[str]:
    """Return the prefix of a command that sees these folders and files, by the absolute path at which it does."""
    mounts = []
    for place, source in places.items():
        folder = place if source.is_dir() else place.rpartition("/")[0]
        mounts.append(f'mkdir -p "$root{folder}"; [ -e "$root{place}" ] || : >"$root{place}"')
        mounts.append(f'mount --bind {shlex.quote(str(source))} "$root{place}"')
    script = _SCRIPT % {"own": "|".join(_OWN), "places": "\n".join(mounts)}
    root = () if os.geteuid() == 0 else ("--map-root-user",)
    return ["unshare", *root, "--mount", "--propagation", "private", "bash", "-c", script, "own-root"]
