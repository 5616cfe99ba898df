"""The agent's life: find the guests, obey, and on the way out leave them to the next one."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any

import structlog

from gpunion.agent.checkpoints.location_watch import StorageWatch
from gpunion.agent.compose.agent import Parts, block_server, counter_of, facts_of, world_of
from gpunion.agent.compose.gpus import why_no_park
from gpunion.agent.compose.metrics import own_page
from gpunion.agent.compose.runtime_files import AGENT_DIR
from gpunion.agent.compose.sessions import gate_of, session_notes, tunnel_of
from gpunion.agent.decision_log import DecisionLog
from gpunion.agent.effects import Performer
from gpunion.agent.link.connection import Connection
from gpunion.agent.link.log_upload import LogPusher
from gpunion.agent.link.plausible import plausible
from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.abilities import try_until_able
from gpunion.agent.machine.disk_watch import DiskWatch
from gpunion.agent.machine.gpu_users import Attribution
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.metrics.gpu_counts import GpuCounts
from gpunion.agent.metrics.gpu_readings import GpuFigures
from gpunion.agent.owner.api import OwnerApi
from gpunion.agent.owner.kill_file import KillListener, owner_has_killed
from gpunion.agent.owner.status import StatusBoard
from gpunion.agent.settings import Settings
from gpunion.agent.shutdown import machine_shuts_down, send_away
from gpunion.agent.state_dir import FAREWELL_FILE, LOCK_FILE, OF_THE_AGENT, remove
from gpunion.agent.terms.editor import TermsDesk
from gpunion.agent.terms.in_force import Found, TermsKeeper
from gpunion.agent.terms.signs import SignWatch
from gpunion.agent.terms.watch import TermsWatch
from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.terms import OwnersTerms
from gpunion.domain.protocol.commit import SavedAgent
from gpunion.domain.protocol.events import AgentStarted
from gpunion.domain.protocol.frames import Preparing, SaveNote
from gpunion.domain.resources import Gpu
from gpunion.domain.system_tier import SystemAbility
from gpunion.domain.timing import Timing
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.files import write_json
from gpunion.vault.peers import BlockServing

# How long an agent that left waits for the coordinator to know; then the silence says it as well.
GOODBYE_LIMIT_S = 3.0
LOOK_S = 0.2
COUNTER_LIMIT_S = 5.0  # a name server that is silent keeps nobody from lending

log = structlog.get_logger()


class CannotStart(Exception):
    """Why the agent does not start and what to do next, in words for the owner."""


class Agent:
    """All parts of a running agent, and the tasks that drive them."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts
        remembered = parts.disk.load(parts.clock.now_s())
        if remembered.forgot:
            log.error("memory_lost", trouble=remembered.forgot)
        self._rebooted = remembered.rebooted
        self._station = PureAgent(
            node_id=NodeId(settings.node_id),
            facts=facts_of(settings, parts),
            saved=remembered.saved,
            timing=Timing(),
        )
        if self._station.engine.state.holding.owner_state is OwnerState.LEFT:
            raise CannotStart("this machine has left the campus. Next: gpunion join")
        self._gpu_counts = GpuCounts(lambda: self._station, lambda: self._figures)
        self._world = world_of(
            settings, parts,
            post=lambda event: self._kills.post(event),
            look_at_gpus=lambda: self._gpu_watch.look(),
            owner_state=lambda: self._station.engine.state.holding.owner_state,
            gate=gate_of(self._station),
            gpu_use=self._gpu_counts.guests.of,
        )  # fmt: skip
        self._tunnel = tunnel_of(parts, self._world.gate, self._station)
        self._logs = LogPusher(parts.link, settings.state_dir / AGENT_DIR / "logs")
        self._performer = Performer(self._world, self._logs, lending=self._lending)
        self.loop = AgentLoop(
            station=self._station,
            disk=parts.disk,
            clock=parts.clock,
            perform=self._performer.perform,
            committed=DecisionLog().committed,
        )
        self._kills = KillListener(self.loop, settings.state_dir)
        self._connection = Connection(
            loop=self.loop,
            link=parts.link,
            clock=parts.clock,
            progress=self._performer.progress,
            preparing=self._preparing,
            saves=self._saves,
            finishing=lambda: self._world.saves.finishing(self._station.engine.state.guests.values()),
            installed=self._world.installed,
            sessions=session_notes(self._world, lambda: self._gpu_watch),
            readings=(lambda: self._figures.for_the_campus()) if parts.gpus.watched else None,
            busy=self._gpu_counts.busy.due,
        )
        self._gpu_watch = self._watch_gpus()
        self._figures = GpuFigures(self._station, self._gpu_watch, lambda: self._desk.keeper.terms.terms)
        self._storage_watch, self._disk_watch = self._watch_places()
        self._desk, self._terms_watch, self._sign_watch = self._keep_terms()
        # Where others hand over checkpoints to be kept, if the owner lends disk.
        self._counter = counter_of(settings, parts, self._station, self._connection.greet_again)
        self._owner_api = self._answer_the_owner()
        self._told = False  # the coordinator, of our leaving
        self._server: BlockServing | None = None  # where other machines fetch blocks, if the owner lets them
        self._deciding: asyncio.Task[None] | None = None
        self._by_terms: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def _watch_gpus(self) -> GpuWatch:
        settings = self._settings
        return GpuWatch(
            gpus=self._parts.gpus,
            loop=self.loop,
            clock=self._parts.clock,
            settings=settings.gpu_watch,
            attribution=Attribution(settings.state_dir, settings.gpu_watch.ignore),
            in_force=self._performer.small_things_done,
            more_found=self._more_gpus,
            seen=self._gpu_counts.seen,
        )

    def _watch_places(self) -> tuple[StorageWatch, DiskWatch]:
        """Where guests' states go, and where guests themselves write."""
        greet_again = self._connection.greet_again
        storage = StorageWatch(
            storage=self._parts.storage, link=self._parts.link, station=self._station, greet_again=greet_again
        )
        return storage, DiskWatch(folder=self._settings.state_dir, loop=self.loop, greet_again=greet_again)

    def _keep_terms(self) -> tuple[TermsDesk, TermsWatch, SignWatch]:
        settings, parts = self._settings, self._parts
        keeper = TermsKeeper(
            settings.state_dir,
            Found(
                terms=OwnersTerms(terms=settings.terms, house=settings.house), trouble=settings.terms_trouble
            ),
            parts.calendar,
        )
        self._world.caps.take(keeper.terms)
        desk = TermsDesk(
            keeper=keeper,
            loop=self.loop,
            in_force=self._performer.small_things_done,
            greet_again=self._connection.greet_again,
            caps=self._world.caps,
            gpus_are_watched=parts.gpus.watched,
            unenforced=parts.runtime.unenforced,
            why_no_park=lambda: why_no_park(settings),
            allow_places=parts.allow_places,
        )
        watch = TermsWatch(
            keeper=keeper,
            loop=self.loop,
            clock=parts.clock,
            gpus=self._gpu_watch,
            in_force=self._performer.small_things_done,
            file_changed=desk.look,
        )
        signs = SignWatch(keeper=keeper, loop=self.loop, clock=parts.clock, gpus=self._gpu_watch)
        return desk, watch, signs

    def _answer_the_owner(self) -> OwnerApi:
        board = StatusBoard(
            settings=self._settings,
            world=self._world,
            loop=self.loop,
            connection=self._connection,
            watch=self._gpu_watch,
            disk=self._disk_watch,
            terms=self._desk,
            times=self._terms_watch,
            signs=self._sign_watch,
            keeping=None if self._counter is None else self._shown_keeping,
        )
        return OwnerApi(
            state_dir=self._settings.state_dir,
            loop=self.loop,
            board=board,
            in_force=self._performer.small_things_done,
            desk=self._desk,
            kills=self._kills,
        )

    async def begin(self) -> None:
        """In this order: guests are found and decided about before anybody new can ask for anything."""
        self._world.run_notes.open()
        if self._world.environments is not None:
            self._world.environments.remember(self._world.run_notes.all())
            await asyncio.to_thread(self._world.environments.look)
        self._logs.open()
        found = await self._performer.find()
        self._performer.adopt(found)
        killed = owner_has_killed(self._settings.state_dir)
        await self.loop.begin(AgentStarted(found=found, killed_meanwhile=killed, rebooted=self._rebooted))
        self._deciding = asyncio.create_task(self.loop.run(), name="deciding")
        self._performer.bury(found, self._station.engine.state.guests)
        await self._owner_api.open()
        self._open_port()
        if self._counter is not None:  # first: others are told of it as soon as this machine says hello
            self._tasks.append(asyncio.create_task(self._counter.run()))
            await self._counter.looked(COUNTER_LIMIT_S)
        jobs = (
            self._connection.run(),
            self._tunnel.run(),
            self._logs.run(),
            self._kills.run(),
            self._gpu_watch.run(),
            self._try_abilities(),
            self._sign_watch.run(),
            self._storage_watch.run(),
            self._disk_watch.run(),
            own_page(self._settings, self._station, self._figures).run(),
            self._parts.replicator.run(),
            self._parts.unsent.run(self._world, self._lending, self.loop.wrote_down),
        )
        self._by_terms = asyncio.create_task(self._terms_watch.run())
        self._tasks += [self._by_terms, *map(asyncio.create_task, jobs)]
        log.info(
            "agent_started",
            node=self._settings.node_id,
            incarnation=self._station.incarnation,
            guests=sum(1 for guest in found if guest.alive),
            runtime=self._parts.runtime.describe(),
            sandboxed=self._parts.runtime.sandboxed,
            gpus=self._parts.gpus.describe(),
        )

    async def live(self, stop: asyncio.Event) -> bool:
        """Until it is told to stop, or its owner has left the campus; or until the coordinator has forgotten
        it: then it is to begin anew, and the answer is yes."""
        assert self._deciding is not None
        stopped = asyncio.create_task(stop.wait())
        left = asyncio.create_task(self._left())
        forgotten = asyncio.create_task(self._forgotten())
        driving = [self._deciding, *self._tasks]
        ends = [stopped, left, forgotten]
        try:
            done, _ = await asyncio.wait([*ends, *driving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
        for task in driving:
            if task in done:
                task.result()  # raises: a bug. The guests wait for the next agent, within their leases.
        if left in done:
            await self._purge()
            return False
        if forgotten in done:
            await self._begin_anew()
            return True
        if await asyncio.to_thread(machine_shuts_down):
            assert self._by_terms is not None
            self._by_terms.cancel()  # it would lend the machine again: nothing in the terms withholds it
            await send_away(self.loop, self._parts.clock, self._performer.small_things_done)
        guests = [guest.run_id for guest in self._station.engine.state.guests.values() if guest.living]
        log.info(
            "agent_stopped",
            guests_left=guests,
            message="guests go on without the agent until their lease ends; start it again to keep them, "
            "or `gpunion kill` to end them"
            if guests
            else "no guest is here",
        )
        return False

    async def end(self) -> None:
        tasks = [*self._tasks, *([self._deciding] if self._deciding else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for open_to_others in (self._server, self._counter):
            if open_to_others is not None:
                open_to_others.close()
        self._owner_api.close()
        await self._parts.link.close()

    def _open_port(self) -> None:
        """A port that cannot be opened keeps nobody from lending: the vault has everything."""
        if self._world.desk is None:
            return
        try:
            self._server = block_server(self._settings, self._world.desk)
        except OSError as error:
            self._station.change_facts(replace(self._station.facts, data_address=""))
            log.error("data_port_not_opened", port=self._settings.data_port, trouble=str(error))
            return
        self._server.start()
        log.info("data_port_opened", address=self._server.address)

    def _shown_keeping(self) -> dict[str, Any]:
        assert self._parts.kept is not None
        assert self._counter is not None
        places = [place.name for place in self._parts.storage.kept_here()]
        troubles = [self._counter.trouble, *map(self._storage_watch.troubles.get, places)]
        return {
            **self._parts.kept.shown(),
            "places": places,
            "open": self._counter.is_open,
            "trouble": next(filter(None, troubles), ""),
        }

    async def _try_abilities(self) -> None:
        """Beside everything else, since it takes seconds: a driver is asked whether it can park, and a small
        guest is dumped and brought back."""
        await self._desk.try_parking()
        checkpointer = self._parts.checkpointer
        if checkpointer is not None:
            await try_until_able(checkpointer.ability, self._say_whether_it_dumps)
        await asyncio.Event().wait()

    def _say_whether_it_dumps(self, ability: SystemAbility) -> None:
        self._station.change_facts(replace(self._station.facts, system=ability))
        self._connection.greet_again()
        log.info("dumping_tried", able=ability.able, why_not=ability.why_not, kind=ability.kind)

    def _preparing(self) -> tuple[Preparing, ...]:
        images = self._parts.images
        return (*(() if images is None else images.preparing()), *self._world.preparing.all())

    def _saves(self) -> tuple[SaveNote, ...]:
        guests = self._station.engine.state.guests.values()
        return self._world.saves.notes(guests, self._parts.clock.now_s())

    def _more_gpus(self, found: tuple[Gpu, ...]) -> None:
        facts = self._station.facts
        self._station.change_facts(plausible(replace(facts, capacity=replace(facts.capacity, gpus=found))))
        self._connection.greet_again()
        log.info("gpus_found", gpus=len(found))

    def _lending(self) -> bool:
        return self._station.engine.state.holding.owner_state is OwnerState.SHARING

    async def _left(self) -> None:
        """Returns when the owner has left the campus and the coordinator knows, or has had its time to."""
        state = self._station.engine.state
        while state.holding.owner_state is not OwnerState.LEFT or state.guests:
            await asyncio.sleep(LOOK_S)
        await self._performer.settle()
        until_s = self._parts.clock.now_s() + GOODBYE_LIMIT_S
        while self._station.reports.waiting and self._parts.clock.now_s() < until_s:
            await asyncio.sleep(LOOK_S)
        self._told = self._station.connected and not self._station.reports.waiting

    async def _forgotten(self) -> None:
        while not self._station.forgotten:
            await asyncio.sleep(LOOK_S)

    async def _begin_anew(self) -> None:
        """A coordinator with an older database knows neither what we told it nor what it had ordered. The
        owner's word stays. Guests are ended by who starts next: nobody could tell it of them."""
        assert self._deciding is not None
        self._deciding.cancel()  # nothing is decided, and written, after this
        await asyncio.gather(self._deciding, return_exceptions=True)
        holding = self._station.engine.state.holding
        if holding.owner_state is OwnerState.RECLAIMING:
            holding = replace(holding, owner_state=OwnerState.RECLAIMED, deadline_s=None)
        log.warning(
            "coordinator_forgot",
            message="the coordinator's database is older than what this machine has told it, so it was put "
            "back from a backup. Guests are ended, and their jobs go on from what they saved last",
        )
        fresh = SavedAgent(incarnation=secrets.token_hex(8), records=(holding,))
        await asyncio.to_thread(self._parts.disk.write, fresh)

    async def _purge(self) -> None:
        """An owner who leaves finds no settings of us, no credential, no memory."""
        root = self._settings.state_dir
        if self._parts.images is not None:
            await self._parts.images.purge()
        for name in sorted(OF_THE_AGENT):
            await asyncio.to_thread(remove, root / name)
        self._settings.credential_file.unlink(missing_ok=True)  # the settings may name another one
        write_json(str(root / FAREWELL_FILE), {"coordinator_told": self._told}, durable=False)
        left = f"{FAREWELL_FILE} and {LOCK_FILE} are left in {root}; gpunion leave --purge removes them too"
        log.info("agent_left", message=f"this machine has left the campus; of the agent only {left}")
