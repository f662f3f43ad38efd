"""What `run` has loaded when it says that it has started: each module costs every start, and every hand-over, its CPU.

By names, which are the same on every machine; what they take is in docs/reliability.md.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from lab.brokers.authority import Authority

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_SECONDS = 20
OURS = {"admission", "journal_schema", "operating", "protocol", "proxy"}
OF_OPERATING = {
    "",
    "cli",
    "commands",
    "commands.options",
    "commands.run",
    "configuration",
    "running",
}
OTHERS = {
    "attr", "attrs", "click", "construct", "h11", "idna", "msgspec", "outcome", "sniffio",
    "sortedcontainers", "trio", "typing_extensions",
}  # fmt: skip
FOR_KEYS = {"_cffi_backend", "_openssl", "cryptography"}
LATER = {
    "proxy.observing.exposition": "prometheus_client, for the first scrape",
    "operating.http_client": "what asks URLs",
    "proxy.tls.contexts": "what understands keys",
    "proxy.tls.identity": "the same",
    "proxy.tls.leg": "the same",
}
LIBRARY_LATER = {
    "asyncio", "concurrent", "http.client", "http.server", "importlib.metadata", "logging.config", "logging.handlers",
    "multiprocessing", "urllib.error", "urllib.request", "xml",
}  # fmt: skip
BEFORE_IT_GIVES_WAY = {"errors", "logs", "logs.terminal_text"}
BEGINS = """
import os, sys
# Debian's Python loads a module of its own at every start.
for name in ("sitecustomize", "usercustomize"): sys.modules.pop(name, None)
def write_modules(): os.write(2, " ".join(sys.modules).encode())
"""
TELLS = """
import proxy.serving.serve
async def tell():
    write_modules()
    os._exit(0)
proxy.serving.serve.load_lazily = tell
from operating.cli import main
main()
"""


def modules(code: str, *arguments: str | Path) -> set[str]:
    """Those that Python has when `code` calls `write_modules`."""
    command = [sys.executable, "-c", BEGINS + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True)
    return set(done.stderr.split()) - {"__main__"}


def loaded(config: Path) -> set[str]:
    return modules(TELLS, "run", "--config", config)


def packages(names: set[str]) -> set[str]:
    """Of others: neither the standard library's nor what Python itself adds for its build."""
    tops = {name.partition(".")[0] for name in names}
    return {top for top in tops if top not in sys.stdlib_module_names and not top.startswith("_sysconfigdata")} - OURS


def test_of_what_others_wrote_it_has_what_relays_and_reads_files(config: Path) -> None:
    found = loaded(config)
    assert packages(found) <= OTHERS
    assert {"trio", "click", "msgspec", "h11"} <= packages(found)
    of_operating = {name.removeprefix("operating").removeprefix(".") for name in found if name.startswith("operating")}
    assert of_operating == OF_OPERATING
    assert found & (LATER.keys() | LIBRARY_LATER) == set()


def test_before_it_gives_way_it_has_loaded_what_its_options_need() -> None:
    """What is loaded by then has the priority of the process that relays."""
    found = modules("import operating.cli, operating.commands.run; write_modules()")
    assert {name.removeprefix("proxy.") for name in found if name.startswith("proxy.")} == BEFORE_IT_GIVES_WAY
    assert packages(found) == {"click"}


def test_what_comes_later_is_there() -> None:
    """Names that have changed would be looked for in vain."""
    code = f"import importlib\nfor name in {sorted(LATER.keys() | LIBRARY_LATER)}: importlib.import_module(name)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_SECONDS)


def test_keys_bring_what_understands_keys(config: Path) -> None:
    Authority(config.parent).issue("own.pem", ["kafka-101"])
    with config.open("a") as file:
        file.write('[ingress.tls.listen]\nssl.keystore.location = "own.pem"\n')
    found = loaded(config)
    assert packages(found) <= OTHERS | FOR_KEYS
    assert {"cryptography", "proxy.tls.leg", "proxy.tls.contexts"} <= found
