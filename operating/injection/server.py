"""The webhook's edge: HTTPS on one address, a review in, an answer out; ends with SIGTERM.

Runs on the sidecar's own HTTP server (`proxy.http`), whose bounds hold here as well. Invariant: a bad request costs its
own connection only. Certificate and addition are looked at once a second, and the last good ones stay in use.
"""

from __future__ import annotations

import signal
import ssl
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from proxy.config.tls_settings import KEY_AGREEMENT
from proxy.errors import ConfigurationError
from proxy.files.reading import identities_of
from proxy.http.authorization import Trust
from proxy.http.loop_share import LoopShare
from proxy.http.request_checks import Bounds
from proxy.http.routing import JSON, TEXT, Answer, Request, Route, Routes, json_answer
from proxy.http.server import HttpServer
from proxy.threads import FILE_THREADS, NoThreadError, in_thread

from .addition import read_addition
from .injecting import NoReviewError, Review

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from proxy.config.settings_values import Address
    from proxy.logs.log import Log

    from .addition import Addition


INJECT = "/inject"
MAX_REVIEW_BYTES = 2 * 1024 * 1024
"""The longest body. An object in etcd may have 1.5 MB, and the review of a new object contains it once. As Python's
objects a review takes up to 33 times as many bytes (measured), and any client in the cluster may send one."""
BOUNDS = Bounds(connections=64)
"""The API server keeps a few connections open, and opens more under load; the one that has waited longest makes room.
Each may hold the longest body. Even if all of them do, and one is being read, the webhook takes less memory than its
pod may use."""
LOOK_SECONDS = 1.0
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """`certificate` and `key`: PEM files, as a Secret of the kind kubernetes.io/tls has them."""

    listen: Address
    certificate: Path
    key: Path
    addition: Path


class Webhook:
    """The webhook's server; once made, it is bound and has read good files.

    Raises ConfigurationError when it is made.
    """

    def __init__(self, settings: WebhookSettings, log: Log) -> None:
        self._log = log
        identity = (settings.certificate, settings.key)
        self._context = Current("certificate", identity, partial(_context, *identity), log)
        self._addition: Current[Addition] = Current(
            "addition", (settings.addition,), partial(read_addition, settings.addition), log
        )
        try:
            self._server = HttpServer.bind(settings.listen, log=log, bounds=BOUNDS)
        except ConfigurationError as error:
            raise ConfigurationError(str(error).replace("http.listen", "--listen")) from error

    @property
    def address(self) -> Address:
        return self._server.address

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until SIGTERM or SIGINT, or cancelled."""
        with closing(self._server), trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as asked:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(self._context.run)
                tasks.start_soon(self._addition.run)
                serve = partial(self._server.run, self._routes(), trust=Trust(["*"]), turn=LoopShare(), tls=self._tls)
                await tasks.start(serve)
                self._log.info("webhook_started", listen=str(self.address), pods=len(self._addition.value.pods))
                task_status.started()
                async for number in asked:
                    self._log.info("webhook_stopped", reason=signal.Signals(number).name)
                    tasks.cancel_scope.cancel()
                    return

    def _tls(self) -> ssl.SSLContext:
        return self._context.value

    def _routes(self) -> Routes:
        return Routes(
            [
                Route("POST", INJECT, self._inject, max_body_bytes=MAX_REVIEW_BYTES, any_host=True),
                Route("GET", "/healthz", _alive, any_host=True),
                Route("GET", "/readyz", _alive, any_host=True),
            ]
        )

    async def _inject(self, request: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        try:
            review = Review(request.body)
        except NoReviewError as error:
            return json_answer(400, {"error": str(error)})
        decision = review.decide(self._addition.value)
        if decision.refusal is not None:
            self._log.warning("pod_refused", pod=review.pod, reason=decision.refusal)
        elif decision.patch:
            self._log.info("pod_injected", pod=review.pod)
        return Answer(200, review.answer(decision), JSON)


async def _alive(_: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    return Answer(200, b"ok\n", TEXT)


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Load certificate and key. Raises ConfigurationError if a file cannot be read or is not valid, or if they do not
    belong together."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ecdh_curve(KEY_AGREEMENT)
    try:
        for path in (certificate, key):
            path.open("rb").close()
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        raise ConfigurationError(f"{certificate}, {key}: no certificate with its key, in PEM: {reason}") from error
    except OSError as error:
        raise ConfigurationError(f"{error.filename or certificate}: cannot be read: {error.strerror}") from error
    return context


class Current(Generic[_T]):
    """A value that is made of files, and made again when they change: a certificate, or what is added to pods.

    While the files are wrong, the last good value stays in use, and the log tells each cause once.

    Args:
        what: names the value in the log.
        files: the files to look at.
        make: makes the value; blocking; raises ConfigurationError.
    """

    def __init__(self, what: str, files: Sequence[Path], make: Callable[[], _T], log: Log) -> None:
        """Read the files. Blocking. Raises ConfigurationError."""
        self._what, self._files, self._make, self._log = what, tuple(files), make, log
        self._seen = identities_of(self._files)
        self._said: str | None = None
        self.value = make()

    async def run(self) -> None:
        """Check the files once a second, until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except ConfigurationError as error:
                self._refused(str(error))
            except NoThreadError as error:
                # A pod may be allowed no more. The value that there is stays in use.
                self._refused(f"could not be looked at: {error}")

    async def _look(self) -> None:
        seen = await in_thread(identities_of, self._files, limiter=FILE_THREADS)
        if seen == self._seen and self._said is None:
            return
        self.value = await in_thread(self._make, limiter=FILE_THREADS)
        self._seen, self._said = seen, None
        self._log.info("webhook_file_read", file=self._what)

    def _refused(self, why: str) -> None:
        if self._said != why:
            self._log.error("webhook_file_refused", file=self._what, error=why)
        self._said = why
