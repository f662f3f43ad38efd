"""A kubectl that keeps ConfigMaps in a folder: get, and JSON patches with `test`, as an API server does them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """#!{python}
import fcntl, json, pathlib, sys
folder = pathlib.Path({folder!r})
arguments = sys.argv[1:]
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
if "--context" in arguments:
    at = arguments.index("--context")
    del arguments[at:at + 2]
verb, kind, name, namespace = arguments[:4]
assert kind == "configmap" and namespace.startswith("--namespace=")
path = folder / (namespace.removeprefix("--namespace=") + "-" + name)
if not path.exists():
    sys.exit('Error from server (NotFound): configmaps "' + name + '" not found')
with path.open("r+") as stream:
    fcntl.flock(stream, fcntl.LOCK_EX)
    document = json.load(stream)
    if verb == "get":
        print(json.dumps(document))
        sys.exit()
    if (folder / "read-only").exists():
        sys.exit("Error from server (Forbidden): configmaps is forbidden")
    for operation in json.load(sys.stdin):
        key = operation["path"].removeprefix("/data/").replace("~1", "/").replace("~0", "~")
        if operation["op"] == "test" and document["data"].get(key) != operation["value"]:
            sys.exit("The request is invalid: the server rejected our request due to an error in our request")
        if operation["op"] == "replace":
            document["data"][key] = operation["value"]
    if "--dry-run=server" not in arguments:
        stream.seek(0); stream.truncate(); json.dump(document, stream)
"""


class FakeKubectl:
    """`path` is the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = folder / "kubectl"
        self.path.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)))
        self.path.chmod(0o755)

    def refuse_writes(self) -> None:
        (self.folder / "read-only").touch()
