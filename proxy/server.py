"""The sidecar as a process: listeners for both roles, the quotas applied as they change, HTTP, signals, the drain.

Everything is bound before anything is served, so that a port in use is an error at start and not half a sidecar.
Knows how the parts are wired; decides nothing about traffic.

Invariant: after `serve` returns no socket is open and every connection has logged its end.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager, closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from .changes import Changes
from .cluster.broker_questions import RackQuestion
from .cluster.known_brokers import KnownBrokers
from .cluster.topic_questions import ReplicaCountQuestion, TopicNameQuestion
from .cluster.view import follow_cluster
from .config.keeping import LastGoodKeeper
from .config.override_store import store_path
from .connections import Connections, Shared
from .control.override_keeper import OverrideKeeper
from .control.override_routes import override_routes
from .handover.kept_ends import open_kept_ends
from .handover.serving import HandOver
from .http.bearer_token import BearerToken
from .http.statistics import HttpStatistics
from .http.turn import Turn
from .journal.history import History
from .journal.recorder import Journal, prepare
from .listeners import HTTP, PageServers, bound_to, listen, routes
from .network.accepting import Doorkeeper
from .network.name_lookups import NameLookups
from .network.reception import Reception
from .network.redirected import Redirected
from .observing.late import exposition_of, load_what_could_wait
from .observing.metric_row import Overload
from .observing.metrics import Sources
from .observing.oversight import Oversight
from .observing.site import Site
from .observing.status_page import StatusPage
from .observing.surveying import Surveyor
from .process.activation import PassedSockets
from .process.garbage import collect_now_and_then, collected_by_hand
from .process.heartbeat import Heartbeat
from .process.service_manager import ServiceManager
from .process.signals import follow_signals, receive_signals
from .process.supervision import Supervisor, Task
from .process.unraisable import unraisable_told
from .rates.steering import Steering
from .relay.buffers import Buffers
from .relay.caretaker import Caretaker
from .relay.connection import Draining
from .relay.exchange import Undecoded
from .roles import Role
from .throttle.needs import Needs
from .throttle.racks import Racks
from .throttle.remembered import Remembered
from .throttle.role_throttle import RoleThrottle
from .throttle.topic_names import TopicNames
from .tls.legs import open_legs
from .version import own_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from .cluster.view import Question
    from .config.reload import QuotaWatch
    from .config.settings import Address, Settings
    from .logs.log import Log
    from .network.reception import Route
    from .process.signals import SignalReceiver
    from .process.watchdog import Watchdog
    from .statistics import Statistics


async def serve(
    settings: Settings,
    quota_watch: QuotaWatch,
    *,
    statistics: Statistics,
    log: Log,
    signals: bool = True,
    watchdog: Watchdog | None = None,
    service_manager: ServiceManager | None = None,
    take_over: bool = False,
    passed: PassedSockets | None = None,
    task_status: trio.TaskStatus[dict[str, Address]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until SIGTERM or SIGINT, then drain. `task_status` gets the bound address of every listener by its key.

    `watchdog` (started by the caller) and `service_manager` hear of the loop's beats; None: nobody does. `take_over`:
    from the process that serves these settings now, if there is one, with all that it has open. `passed`: what systemd
    listens on for this process.

    Raises ConfigurationError if an address cannot be listened on, or one that systemd listens on is no setting's, or
    the journal cannot be written where nobody was taken over from.
    """
    trio.socket.set_custom_hostname_resolver(NameLookups())
    manager = service_manager or ServiceManager({})
    server = Server(settings, quota_watch, statistics, log, watchdog, manager)
    if take_over:
        # While the process before this one serves: loaded after, it would take the interpreter from its connections.
        await load_what_could_wait()
    inherited = await server.handover.ask() if take_over else None
    if take_over and inherited is None and settings.journal is not None:
        prepare(settings.journal, broker=settings.broker.id)  # nobody writes there: what is open is a crash's
    passed = passed or PassedSockets()
    pages = PageServers.bind(settings, statistics=server.http, inherited=inherited, passed=passed, log=log)
    receiving = receive_signals() if signals else nullcontext()
    with closing(pages), collected_by_hand(), unraisable_told(log), receiving as received:
        found = routes(settings)
        listeners = list(zip(found, await listen(found, settings, inherited, passed), strict=True))
        passed.require_none_left()

        def started() -> None:
            configured = {route.key: (route.listen, listener.socket) for route, listener in listeners}
            server.handover.listens({**pages.listening(settings), **configured}, close_pages=pages.close)
            bound = {route.key: bound_to(listener) for route, listener in listeners}
            listens = {key: str(address) for key, address in bound.items()}
            room = {"open_files": server.doorkeeper.open_files, "max_connections": server.doorkeeper.most}
            most = {key: None if math.isinf(value) else int(value) for key, value in room.items()}
            log.info("started", broker=settings.broker.id, http=str(pages.public.address), **listens, **most)
            manager.ready()
            task_status.started({HTTP: pages.public.address, **bound})

        grace_seconds, told = settings.limits.drain_seconds, server.connections.poller_failed
        async with open_kept_ends(log, grace_seconds=grace_seconds, poller_failed=told) as kept:
            server.handover.keep_tls(kept)
            await _until_drained(server, pages, listeners, received, started, loads=not take_over)
            if kept is not None:
                await kept.outlast(received, (server.heartbeat.run, collect_now_and_then))
    log.info("stopped", broker=settings.broker.id)


async def _until_drained(
    server: Server,
    pages: PageServers,
    listeners: Sequence[tuple[Route, trio.SocketListener]],
    received: SignalReceiver | None,
    started: Callable[[], None],
    *,
    loads: bool,
) -> None:
    """All of a server but the TLS sockets that it keeps. `loads`: what could wait is to be loaded."""
    async with server.recorded():
        async with trio.open_nursery() as background:
            for task, run in server.tasks(pages, received).items():
                background.start_soon(server.handover.keep, server.supervisor, task, run)
            started()
            if loads:
                background.start_soon(load_what_could_wait)
            await server.connections.accept(listeners)
            background.cancel_scope.cancel()
        # Nobody is to wait in the backlog of a socket at which only the other process accepts. And while the end of the
        # journal is written, a process that starts finds nobody to take over from, and every address free.
        pages.close()


class Server:
    """The parts that every connection shares."""

    def __init__(
        self,
        settings: Settings,
        quota_watch: QuotaWatch,
        statistics: Statistics,
        log: Log,
        watchdog: Watchdog | None,
        manager: ServiceManager,
    ) -> None:
        now, limits = trio.current_time(), settings.limits
        self._settings = settings
        self._watch = quota_watch
        self._keeper = LastGoodKeeper(settings.quotas.state, quota_watch, log)
        self._log = log
        self.supervisor = Supervisor(log)
        self._manager = manager
        self.heartbeat = _heartbeat(watchdog, manager)
        self._changes = Changes()
        self._draining = Draining()
        self.http = HttpStatistics()
        self.journal = (
            None if settings.journal is None else Journal(settings.journal, broker=settings.broker.id, log=log)
        )
        self.history = History(self.journal, settings.quotas.policy)
        quota_watch.observe(self.history.reloaded)
        self.legs = open_legs(settings.tls, limits=limits, log=log)
        self._names = TopicNames()
        self._needs, self._racks = Needs(self._names), Racks(settings.broker.id)
        self._brokers = KnownBrokers(settings, self.legs)
        reception = Reception(
            settings, self.legs, Redirected(), meet=self._brokers.meet, refused=statistics.follower, log=log
        )
        self._throttles = {role: self._throttle(role, statistics, now) for role in Role}
        self._caretaker = Caretaker(limits, Buffers(limits.max_held_bytes), self._throttles.values(), log)
        self.doorkeeper = Doorkeeper(limits, log, memory_is_short=lambda: self._caretaker.stops_accepting)
        self._served = {route.role for route in routes(settings)}
        peers = () if settings.egress is None else settings.egress.peers
        through = {peer.broker for peer in peers if peer.listen is not None} or None
        self.oversight = Oversight(
            {role: self._throttles[role] for role in Role if role in self._served}, log, through=through
        )
        turn = Turn()
        self._surveyor = Surveyor(self._throttles, turn, partitions=settings.http.partition_rates)
        self._steering = Steering(
            quota_watch, self._throttles, self._surveyor, self.oversight, self._quota_holds, log, served=self._served
        )
        self._overrides = self._override_keeper()
        for role in Role:
            self._quota_holds(role, "start")
        self.site = self._site(statistics, turn)
        self.handover = HandOver(settings, self._throttles, self._draining, manager=manager, log=log)
        self.connections = Connections(
            Shared(limits, self._changes, self._draining, self.history, self._caretaker, log),
            self._throttles,
            doorkeeper=self.doorkeeper,
            reception=reception,
            handover=self.handover,
            supervisor=self.supervisor,
        )

    def _override_keeper(self) -> OverrideKeeper:
        broker_id = self._settings.broker.id
        return OverrideKeeper(
            store_path(self._settings.quotas.state, broker_id),
            self._watch,
            broker_id=broker_id,
            log=self._log,
            record=self.history.override,
            in_force=lambda: self._steering.holds_current,
        )

    def _throttle(self, role: Role, statistics: Statistics, now: float) -> RoleThrottle:
        limits = self._settings.limits
        return RoleThrottle(
            role,
            self._settings.quotas,
            quotas=self._watch.current,
            statistics=statistics.of(role),
            now=now,
            ledger=None if self.journal is None else self.journal.ledger,
            names=self._names,
            remembered=Remembered(limits.max_replicas, limits.max_replicas_per_connection),
            needs=self._needs,
            racks=self._racks,
        )

    def _site(self, statistics: Statistics, turn: Turn) -> Site:
        """Raises ConfigurationError: without a token that is right, where one is asked for, there is no start."""
        settings, watch, log = self._settings, self._watch, self._log
        page = StatusPage(
            settings,
            watch,
            self._throttles,
            version=own_version,
            journal=None if self.journal is None else self.journal.statistics,
            doubts=self.oversight.doubts,
            passing=self.oversight.passing,
            not_kept=lambda: self._keeper.error,
            survey=lambda role, _: self._surveyor.last(role),
            chosen=self._steering.choice,
            others=self._warnings,
        )
        return Site(
            settings.http,
            watch,
            page,
            partial(exposition_of, self._sources(statistics)),
            surveyor=self._surveyor,
            turn=turn,
            is_draining=self._draining.is_begun,
            overriding=lambda admit: override_routes(self._overrides, watch, settings.broker.id, admit=admit),
            tls=self.legs.of(settings.http.tls),
            token=None if settings.http.token_file is None else BearerToken.open(settings.http.token_file, log),
        )

    def _warnings(self) -> list[str]:
        """Return what an operator should know of connections, keys, signals, the journal and overrides."""
        problem = None if self.journal is None else self.journal.problem
        told = [] if problem is None else [f"journal: it is not written, lines are dropped: {problem}"]
        lost = filter(None, self._steering.lost_signals().values())
        return [*self.doorkeeper.warnings, *self.legs.warnings, *lost, *told, *self._overrides.warnings()]

    def _sources(self, statistics: Statistics) -> Sources:
        return Sources(
            statistics=statistics,
            reloads=self._watch.statistics,
            quota_source=lambda: self._watch.source,
            quota_keeping=self._keeper.writes,
            quotas=lambda: self._watch.current,
            overrides=lambda: self._overrides.current,
            lost_signals=self._steering.lost_signals,
            served=self._served,
            limit_bytes_per_second=lambda role: self._throttles[role].quota.bytes_per_second,
            bounds=lambda role: () if (finer := self._throttles[role].finer) is None else finer.bounds.values(),
            chosen=self._steering.choice,
            upcoming=lambda: self._watch.upcoming,
            doubts=self.oversight.doubts,
            rate_bytes_per_second=lambda role: self._throttles[role].rate.measure(trio.current_time()),
            survey=self._surveyor.last,
            partition_rates=self._surveyor.partition_rates if self._settings.http.partition_rates else None,
            version=own_version,
            task_restarts=self.supervisor.restarts,
            loop_lag_seconds=lambda: self.heartbeat.lag.worst_seconds,
            overload=Overload(self.doorkeeper, self._caretaker),
            remembered_replicas=lambda role: self._throttles[role].remembered.count,
            http=self.http,
            tls=self.legs,
            journal=None if self.journal is None else self.journal.statistics,
        )

    @asynccontextmanager
    async def recorded(self) -> AsyncIterator[None]:
        """The journal, if one is kept, begins with this block and is on disk after it."""
        self.history.started(own_version)
        try:
            yield
        finally:
            self.history.stopped()
            if self.journal is not None:
                await self.journal.finish()

    def tasks(self, pages: PageServers, received: SignalReceiver | None) -> dict[Task, Callable[[], Awaitable[None]]]:
        """What runs in the background, each under the supervisor. `received` None: signals are somebody else's."""
        found: dict[Task, Callable[[], Awaitable[None]]] = {
            **self.site.tasks(pages.public, pages.control),
            Task.QUOTAS_FILE: self._watch.follow_file,
            Task.QUOTAS_CLOCK: self._watch.follow_clock,
            Task.QUOTAS_STATE: self._keeper.run,
            Task.OVERRIDES: self._overrides.run,
            Task.QUOTAS_LEADER: partial(self._steering.apply_changes, Role.LEADER),
            Task.QUOTAS_FOLLOWER: partial(self._steering.apply_changes, Role.FOLLOWER),
            Task.RATES: self._steering.run,
            Task.AUTO_SIGNALS: self._steering.querying.run,
            Task.CLUSTER: self.follow_cluster,
            Task.HEARTBEAT: self.heartbeat.run,
            Task.CARETAKER: self._caretaker.run,
            Task.GARBAGE: collect_now_and_then,
            Task.OVERSIGHT: self.oversight.run,
            Task.TLS_FILES: self.legs.run,
            Task.HANDOVER: self.handover.run,
        }
        if self.journal is not None:
            found[Task.JOURNAL] = self.journal.run
        if received is not None:
            signals = partial(follow_signals, received, self._watch.reload, self.drain, self._log)
            found[Task.SIGNALS] = partial(signals, self.handover.start_next)
        return found

    def _quota_holds(self, role: Role, reason: str) -> None:
        """Another quota holds from now on, for requests that wait as well."""
        self._changes.notify()
        self.history.quota(self._throttles[role], reason)

    async def follow_cluster(self) -> None:
        """Ask the broker beside, or else a remote one, what the sidecar needs to know about the cluster."""
        throttles = self._throttles.values()
        questions: list[Question[Any]] = [
            TopicNameQuestion(self._names, self._names_changed),
            self.oversight.topics_question(self._watch),
            self.oversight.links_question(self._settings.broker.id),
            ReplicaCountQuestion(self._needs, throttles),
            RackQuestion(self._racks, throttles, partial(self._quota_holds, reason="racks")),
        ]
        await follow_cluster(questions, self._brokers, self._log)

    def _names_changed(self) -> None:
        """Decide requests anew that wait, since topics have names now, or are known to have none."""
        reason, role = Undecoded.UNKNOWN_TOPIC_ID.value, routes(self._settings)[0].role
        if self._names.unnamed:
            self._throttles[role].statistics.undecoded[reason] = self._names.unnamed
        self._changes.notify()

    def drain(self, reason: str) -> None:
        """Accept nothing more, let connections end once nothing is in flight."""
        self.handover.end_soon()
        if not self._draining.is_begun():
            self._log.info("drain_started", reason=reason, deadline_seconds=self._settings.limits.drain_seconds)
            self._manager.stopping()
            self._draining.begun.set()


def _heartbeat(watchdog: Watchdog | None, manager: ServiceManager) -> Heartbeat:
    if watchdog is None:
        return Heartbeat([manager.beat])
    return Heartbeat([watchdog.beat, manager.beat], rested=watchdog.rest)
