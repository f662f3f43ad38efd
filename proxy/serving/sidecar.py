"""Wires the parts of a sidecar: quotas, throttles, connections, pages, journal, background tasks.

Decides nothing about traffic.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ..changes import Changes
from ..clients.throttle import ClientThrottle
from ..cluster.broker_client import KnownBrokers
from ..cluster.polling import follow_cluster
from ..cluster.questions import BrokerAddressQuestion, RackQuestion, ReplicaCountQuestion, TopicNameQuestion
from ..control.override_keeper import OverrideKeeper
from ..control.override_routes import override_routes
from ..handover.serving import HandOver
from ..history.recorder import HistoryRecorder
from ..http.authorization import BearerToken
from ..http.loop_share import LoopShare
from ..http.request_checks import HttpStatistics
from ..journal.recorder import Journal
from ..journal.reports import JournalReports
from ..network.accept_limiter import AcceptLimiter
from ..network.connection_setup import ConnectionSetup
from ..network.redirected import Redirected
from ..observing.condition_checks import ConditionChecks, Parts
from ..observing.metric_row import Sources
from ..observing.quota_checks import QuotaChecks, ReplicaStatsTask
from ..observing.site import Site, exposition_of
from ..observing.status_page import StatusPage
from ..package import own_version
from ..process.resources import collect_now_and_then
from ..process.signals import follow_signals
from ..process.supervision import Supervisor, Task
from ..process.watchdog import Heartbeat
from ..quota_files.last_good_keeper import LastGoodKeeper
from ..quota_files.override_store import store_path
from ..quota_files.reload import CLOCK
from ..rates.rate_controller import RateController
from ..relay.connection import Draining
from ..relay.in_flight import Buffers
from ..relay.reaper import Reaper
from ..roles import Role
from ..statistics.counters import Undecoded
from ..throttle.replicas import ReplicaCountLimit
from ..throttle.role_throttle import RoleThrottle
from ..tls.legs import open_legs
from ..topology.partition_urgency import PartitionUrgency
from ..topology.racks import Racks
from ..topology.topic_names import TopicNames
from .connections import Connections, Shared
from .listeners import PageServers, routes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from ..cluster.polling import Question
    from ..config.settings import Settings
    from ..logs.log import Log
    from ..process.signals import SignalReceiver
    from ..process.systemd import ServiceManager
    from ..process.watchdog import Watchdog
    from ..quota_files.reload import QuotaWatch, ReloadOutcome
    from ..quotas.layer_values import Effect
    from ..quotas.override import Override
    from ..statistics.counters import Statistics


class Sidecar:
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
        self.reports = JournalReports(self.journal, settings.quotas.policy)
        self.history = HistoryRecorder(settings.quotas.state.parent, settings.broker.id, log=log, now=quota_watch.now)
        quota_watch.observe(self._quotas_reloaded)
        self.legs = open_legs(settings.tls, limits=limits, log=log)
        self._names = TopicNames()
        self._urgency, self._racks = PartitionUrgency(self._names), Racks(settings.broker.id)
        self._brokers = KnownBrokers(settings, self.legs)
        connection_setup = ConnectionSetup(
            settings, self.legs, Redirected(), meet=self._brokers.meet, refused=statistics.follower, log=log
        )
        self._clients = ClientThrottle(settings.quotas, quota_watch.current, now, statistics.leader)
        self._throttles = {role: self._throttle(role, statistics, now) for role in Role}
        self._reaper = Reaper(limits, Buffers(limits.max_held_bytes), (*self._throttles.values(), self._clients), log)
        self.accept_limiter = self._accept_limiter()
        self._served = {route.role for route in routes(settings)}
        self.quota_checks = QuotaChecks({role: self._throttles[role] for role in Role if role in self._served})
        turn = LoopShare()
        self._replica_stats_task = ReplicaStatsTask(self._throttles, turn, partitions=settings.http.partition_rates)
        self._rate_controller = self._controller()
        self._overrides = self._override_keeper()
        for role in Role:
            self._quota_holds(role, "start")
        self.conditions = self._condition_checks()
        self.site = self._site(statistics, turn)
        self.handover = HandOver(
            settings, self._throttles, self._draining,
            clients=self._clients, manager=manager, overrides=self._overrides, record=self.history.process, log=log,
        )  # fmt: skip
        self.connections = Connections(
            Shared(limits, self._changes, self._draining, self.reports, self._reaper, log, self._clients),
            self._throttles,
            accept_limiter=self.accept_limiter,
            connection_setup=connection_setup,
            handover=self.handover,
            supervisor=self.supervisor,
        )

    def _accept_limiter(self) -> AcceptLimiter:
        reaper = self._reaper
        return AcceptLimiter(
            self._settings.limits,
            self._log,
            memory_is_short=lambda: reaper.stops_accepting,
            of_brokers=lambda: reaper.of_brokers,
        )

    def _controller(self) -> RateController:
        return RateController(
            self._watch, self._throttles, self._replica_stats_task, self.quota_checks, self._quota_holds, self._log,
            served=self._served,
        )  # fmt: skip

    def _override_keeper(self) -> OverrideKeeper:
        broker_id = self._settings.broker.id
        return OverrideKeeper(
            store_path(self._settings.quotas.state, broker_id),
            self._watch,
            broker_id=broker_id,
            log=self._log,
            record=self._override_changed,
            in_force=lambda: self._rate_controller.holds_current,
        )

    def _condition_checks(self) -> ConditionChecks:
        parts = Parts(
            self._settings,
            self._watch,
            {role: throttle for role, throttle in self._throttles.items() if role in self._served},
            self.quota_checks,
            self._keeper,
            self._overrides,
            self.accept_limiter,
            self.legs,
            self.journal,
            self.history,
            self._rate_controller.choice,
            lambda: self._names.unnamed,
        )
        return ConditionChecks(parts, self._log)

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
            remembered=ReplicaCountLimit(limits.max_replicas, limits.max_replicas_per_connection),
            urgency=self._urgency,
            racks=self._racks,
            above=self._clients.uplink if role is Role.LEADER else None,
        )

    def _site(self, statistics: Statistics, turn: LoopShare) -> Site:
        """Make the pages. Raises ConfigurationError: without a token that is right, where one is asked for, there is no
        start."""
        settings, watch, log = self._settings, self._watch, self._log
        page = StatusPage(
            settings,
            watch,
            self._throttles,
            version=own_version,
            journal=None if self.journal is None else self.journal.statistics,
            passing=self.quota_checks.passing,
            conditions=lambda: self.conditions.current,
            replica_stats=lambda role, _: self._replica_stats_task.last(role),
            chosen=self._rate_controller.choice,
            clients=self._clients,
        )
        return Site(
            settings.http,
            watch,
            page,
            partial(exposition_of, self._sources(statistics)),
            replica_stats_task=self._replica_stats_task,
            turn=turn,
            is_draining=self._draining.is_begun,
            overriding=lambda admit: [
                *override_routes(self._overrides, watch, settings.broker.id, admit=admit),
                self.history.route(admit),
            ],
            tls=self.legs.of(settings.http.tls),
            token=None if settings.http.token_file is None else BearerToken.open(settings.http.token_file, log),
        )

    def _sources(self, statistics: Statistics) -> Sources:
        return Sources(
            statistics=statistics,
            reloads=self._watch.statistics,
            quota_source=lambda: self._watch.source,
            quota_keeping=self._keeper.writes,
            quotas=lambda: self._watch.current,
            overrides=lambda: self._overrides.current,
            served=self._served,
            limit_bytes_per_second=lambda role: self._throttles[role].quota.bytes_per_second,
            bounds=lambda role: self._throttles[role].tree.inner.values(),
            chosen=self._rate_controller.choice,
            upcoming=lambda: self._watch.upcoming,
            conditions=lambda: self.conditions.current,
            rate_bytes_per_second=lambda role: self._throttles[role].rate.measure(trio.current_time()),
            replica_stats=self._replica_stats_task.last,
            partition_rates=self._replica_stats_task.partition_rates if self._settings.http.partition_rates else None,
            version=own_version,
            task_restarts=self.supervisor.restarts,
            loop_lag_seconds=lambda: self.heartbeat.lag.worst_seconds,
            accept_limiter=self.accept_limiter,
            http=self.http,
            clients=self._clients,
            now=trio.current_time,
            tls=self.legs,
            journal=None if self.journal is None else self.journal.statistics,
        )

    @asynccontextmanager
    async def recorded(self) -> AsyncIterator[None]:
        """Start the journal, if any, and have it and the history on disk after the block."""
        self.reports.started(own_version)
        if self.journal is not None:
            self.journal.report_totals = self._report_clients
        try:
            yield
        finally:
            self.reports.stopped()
            self.history.process("stopped", "")
            async with trio.open_nursery() as finishing:
                finishing.start_soon(self.history.finish)
                if self.journal is not None:
                    finishing.start_soon(self.journal.finish)

    def _override_changed(
        self, override: Override, action: str, by: str | None, effects: Sequence[Effect] | None
    ) -> None:
        self.reports.override(override, action, by)
        self.history.override(override, action, by, effects)

    def _quotas_reloaded(self, outcome: ReloadOutcome) -> None:
        if outcome.reason != CLOCK:
            self.reports.reloaded(outcome)
        self.history.quotas(outcome)

    def _describe_start(self) -> tuple[str, ReloadOutcome]:
        """Return the quotas at the start, and the edits of quotas.toml before it. Blocking."""
        quotas = self._watch.current
        rates = ", ".join(f"{role.value} {quotas.of(role).rate_in_words()}" for role in Role if role in self._served)
        mode = "enforcing" if quotas.enforce else "observing only"
        return f"version {own_version()}: {rates}, {mode}", self._watch.effects_of_start()

    def _report_clients(self) -> None:
        self._clients.count_mutes(trio.current_time())
        self.reports.clients(self._clients)

    def tasks(self, pages: PageServers, received: SignalReceiver | None) -> dict[Task, Callable[[], Awaitable[None]]]:
        """Return the background tasks, each for the supervisor. `received` None: signals are handled elsewhere."""
        found: dict[Task, Callable[[], Awaitable[None]]] = {
            **self.site.tasks(pages.public, pages.control),
            Task.QUOTAS_FILE: self._watch.follow_file,
            Task.QUOTAS_CLOCK: self._watch.follow_clock,
            Task.QUOTAS_STATE: self._keeper.run,
            Task.OVERRIDES: self._overrides.run,
            Task.QUOTAS_LEADER: partial(self._rate_controller.apply_changes, Role.LEADER),
            Task.QUOTAS_FOLLOWER: partial(self._rate_controller.apply_changes, Role.FOLLOWER),
            Task.RATES: self._rate_controller.run,
            Task.CLUSTER: self.follow_cluster,
            Task.HEARTBEAT: self.heartbeat.run,
            Task.REAPER: self._reaper.run,
            Task.GARBAGE: collect_now_and_then,
            Task.QUOTA_CHECKS: self.quota_checks.run,
            Task.CONDITIONS: self.conditions.run,
            Task.TLS_FILES: self.legs.run,
            Task.HANDOVER: self.handover.run,
            Task.HISTORY: partial(self.history.run, self._describe_start),
        }
        if self.journal is not None:
            found[Task.JOURNAL] = self.journal.run
        if received is not None:
            signals = partial(follow_signals, received, self._watch.reload, self.drain, self._log)
            found[Task.SIGNALS] = partial(signals, self.handover.start_next)
        return found

    def _quota_holds(self, role: Role, reason: str) -> None:
        """Put another quota in force, for requests that wait as well."""
        self._clients.apply(self._watch.current, trio.current_time())
        self._changes.notify()
        self.reports.quota(self._throttles[role], reason)

    async def follow_cluster(self) -> None:
        """Ask the broker beside, or else a remote one, about the cluster."""
        throttles = self._throttles.values()
        questions: list[Question[Any]] = [
            TopicNameQuestion(self._names, self._names_changed),
            self.quota_checks.topics_question(self._watch),
            self.quota_checks.links_question(self._settings.broker.id),
            ReplicaCountQuestion(self._urgency, throttles),
            RackQuestion(
                self._racks,
                throttles,
                partial(self._quota_holds, reason="racks"),
                None if self.journal is None else self.journal.learn_place,
            ),
        ]
        if Role.LEADER in self._served:
            questions += [
                BrokerAddressQuestion(self._needs_broker_addresses, self._learn_broker_addresses),
                self.quota_checks.kafka_throttle_question(self._settings.broker.id),
            ]
        await follow_cluster(questions, self._brokers, self._log)

    def _needs_broker_addresses(self) -> bool:
        """Return True if clients have quotas, or if places become rare."""
        limiter = self.accept_limiter
        return self._clients.is_needed or 2 * limiter.open >= limiter.most

    def _learn_broker_addresses(self, addresses: frozenset[str]) -> None:
        self._clients.broker_addresses = self.accept_limiter.broker_addresses = addresses

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
