"""The runs of a folder: what a client can do with them and see of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Literal, final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from principia.lab.course import catalog
from principia.lab.params import UsageError, shown
from principia.lab.runs.config import RunConfig, config_of
from principia.lab.runs.execution import create
from principia.lab.runs.folders import RunFolder
from principia.lab.web.gate.answers import Conflict, Forbidden, Missing
from principia.lab.web.gate.sessions import Visitor
from principia.lab.web.processes.shares import Share
from principia.lab.web.processes.workers import Busy, Workers
from principia.lab.web.runs import run_store
from principia.lab.web.runs.following import Event, Seen, curves_of, figure_paths, follow
from principia.lab.web.runs.queue import QueuedRun, RunQueue

__all__ = ["Runs", "RunRequest"]

LISTENERS = 50  # each looks into a folder four times a second
ELSEWHERE = 2.0  # seconds between two looks at a run that another process has
ACTIVE = ("waiting", "running", "stopping")
Text = Annotated[str, Field(max_length=1000)]
Seed = Annotated[
    int,
    Field(ge=0, le=2**32 - 1),
    # in JSON, 3.0 is the integer 3
    BeforeValidator(lambda one: int(one) if type(one) is float and one.is_integer() else one),
]
_NOT_AGAIN = {
    "reached": "has ended already. Open its report.",
    "missed": "has ended already. Open its report.",
    "failed": "never began. Start a new run.",
    "waiting": "waits for its turn already.",
    "running": "is running already.",
    "stopping": "is still stopping. Try again in a moment.",
}


class RunRequest(BaseModel):
    """An experiment, its budget and seed, and the knobs that differ; texts as after --set."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: Annotated[str, Field(max_length=200)]
    budget: Literal["quick", "full"] = "quick"
    seed: Seed = 0
    knobs: Annotated[dict[Text, Text], Field(max_length=100)] = {}


class _Closed(Exception):
    """The server ends: whoever listens should come back when there is one again."""


@final
class Runs:
    """Starts, stops, resumes, shows and follows the runs of a folder.

    Names of runs come from clients, so they are only looked up among the folders that are there.

    Args:
        runs_dir: Folder of the run folders.
        workers: Where experiments run.
        data_dir: Folder with the data sets.
        share: How many experiments run at once, and the memory of each.
    """

    def __init__(
        self, runs_dir: Path, workers: Workers, data_dir: str | None = None, *, share: Share
    ) -> None:
        if data_dir is not None and not Path(data_dir).is_dir():
            raise UsageError(f"run: folder {shown(data_dir)} does not exist. Name the data folder.")
        self.runs_dir = runs_dir.resolve()
        self._data_dir = str(Path(data_dir).resolve()) if data_dir else None
        self._queue = RunQueue(workers, share)
        self.listeners = 0  # who follow a run now
        self._turn = asyncio.Lock()  # of whoever starts: two at once would both find a free place

    # What a client can do

    async def start(self, visitor: Visitor, request: RunRequest) -> str:
        """Begin a new run, or let it wait for its turn; give its name."""
        async with self._turn:
            config = await asyncio.to_thread(self._config, request)
            self._queue.need_place(visitor.session)
            folder = await asyncio.to_thread(create, self.runs_dir, config, config.command)
            self._queue.admit(QueuedRun(visitor.session, folder))
            return folder.name

    async def resume(self, visitor: Visitor, name: str) -> str:
        """Go on with a run that was interrupted; give its new status."""
        async with self._turn:
            folder, state = await asyncio.to_thread(self._found, visitor, name)
            if not state["resumable"]:
                unusable = "cannot be resumed: its folder cannot be read or written."
                raise Conflict(f"run: {name} {_NOT_AGAIN.get(state['status'], unusable)}")
            self._queue.need_place(visitor.session)
            queued = QueuedRun(visitor.session, folder, resumed=True)
            self._queue.admit(queued)
            return queued.status

    async def cancel(self, visitor: Visitor, name: str) -> str:
        """Stop a run after its present step, or take it out of the queue; give its new status.

        Only who started it may, or who owns the server.
        """
        queued = self._queue.queued(name)
        if queued is None:
            _, state = await asyncio.to_thread(self._found, visitor, name)
            why = f"cannot be stopped here. {state['note']}" if state["note"] else "does not run."
            raise Conflict(f"run: {name} {why}")
        if not queued.obeys(visitor):
            raise Forbidden(
                f"run: {name} was started by another visitor, who can stop it, as the owner of "
                "this server can. Ask one of them."
            )
        self._queue.cancel(queued)
        return queued.status if queued.begun else "interrupted"

    async def close(self) -> None:
        """Ask all to stop, wait a little, and end those that do not."""
        await self._queue.close()

    # What a client can see

    def listed(self, visitor: Visitor) -> list[dict[str, Any]]:
        """List all runs, newest first."""
        return [self._summary(one, visitor) for one in run_store.folders(self.runs_dir)]

    def of_page(self, key: str) -> list[dict[str, Any]]:
        """List the newest runs of a page's experiments."""
        folders = run_store.folders(self.runs_dir)
        own = [folder for folder in folders if run_store.facts(folder)["page"] == key]
        return [
            {
                "name": folder.name, "key": folder.config.key,
                "status": self._status(folder),
            }
            for folder in own[:20]
        ]

    def describe(self, visitor: Visitor, name: str) -> dict[str, Any]:
        """Tell all about one run, but its figures."""
        folder = self.folder(name)
        return {
            **self._summary(folder, visitor),
            "said": self._words(name)[0],
            "curves": curves_of(folder),
            "figures": list(figure_paths(folder)),
        }

    def folder(self, name: str) -> RunFolder:
        """Find a run by its name among those that there are."""
        for one in run_store.folders(self.runs_dir):
            if one.name == name:
                return one
        past = self._queue.last_words(name)
        if past is not None and past.discarded:
            return past.folder
        raise Missing(f"There is no run {shown(name)}. Look for it in the list of runs.")

    def events(
        self, visitor: Visitor, name: str, mark: str = ""
    ) -> AsyncGenerator[Event, None]:
        """Follow a run until it is over.

        Args:
            visitor: Who follows it.
            name: Which run.
            mark: The id of the last event that the client got; without it, all is told.
        """
        folder = self.folder(name)
        if self.listeners >= LISTENERS:
            raise Busy(f"The lab is busy: {LISTENERS} pages follow runs already. Close some.")
        return self._events(folder, visitor, mark)

    async def _events(
        self, folder: RunFolder, visitor: Visitor, mark: str
    ) -> AsyncGenerator[Event, None]:
        if self.listeners >= LISTENERS:  # many came at once; this one will come again
            return
        self.listeners += 1
        rested: tuple[float, Seen] | None = None

        async def look() -> Seen:
            nonlocal rested
            if self._queue.closed:
                raise _Closed
            if self._queue.queued(folder.name):
                rested = None
                return Seen(self._state(folder, visitor), *self._words(folder.name))
            now = asyncio.get_running_loop().time()
            if rested is None or now - rested[0] >= ELSEWHERE:
                state = await asyncio.to_thread(self._state, folder, visitor)
                over = state["status"] not in ACTIVE
                rested = now, Seen(state, *self._words(folder.name), over)
            return rested[1]

        try:
            async with aclosing(follow(folder, look, mark)) as events:
                async for event in events:
                    yield event
        except _Closed:
            return
        finally:
            self.listeners -= 1

    def _found(self, visitor: Visitor, name: str) -> tuple[RunFolder, dict[str, Any]]:
        folder = self.folder(name)
        return folder, self._state(folder, visitor)

    def _summary(self, folder: RunFolder, visitor: Visitor) -> dict[str, Any]:
        known = {name: one for name, one in run_store.facts(folder).items() if name != "broken"}
        return {
            "name": folder.name, **known, "numbers": run_store.numbers(folder),
            **self._state(folder, visitor)
        }

    def _status(self, folder: RunFolder) -> str:
        told = self._queue.last_words(folder.name)
        if told is not None and told.discarded:
            return "failed"
        broken = run_store.facts(folder)["broken"]
        return run_store.BROKEN if broken else self._queue.status(folder)

    def _state(self, folder: RunFolder, visitor: Visitor) -> dict[str, Any]:
        """Tell how a run stands: all that changes while it runs, and what this visitor may do."""
        queued, told = self._queue.queued(folder.name), self._queue.last_words(folder.name)
        broken, status = run_store.facts(folder)["broken"], self._status(folder)
        place = self._queue.place(queued) if queued and status == "waiting" else None
        note = f"It waits for its turn: place {place} in the queue." if place else ""
        if queued is None and status == "running":
            note = "It was started elsewhere, for example on the command line: stop it there."
        return {
            "status": status, "place": place, "note": note,
            "progress": queued.eta.to_json() if queued else None,
            "problem": (told.problem if told else "") or broken,
            "cancellable": queued is not None and not queued.stopping and queued.obeys(visitor),
            "resumable": status == "interrupted",
            "report": folder.report_file.is_file(),
        }

    def _words(self, name: str) -> tuple[list[str], int]:
        """Give what a run said, and how many lines were before that."""
        told = self._queue.last_words(name)
        return (list(told.said), told.lines - len(told.said)) if told else ([], 0)

    def _config(self, request: RunRequest) -> RunConfig:
        """Check what is requested as the command line does."""
        try:
            catalog.experiment(request.key, "run")
        except UsageError as error:
            raise Missing(str(error)) from None
        texts = {knob.strip(): text.strip() for knob, text in request.knobs.items()}
        return config_of(
            request.key, texts, budget=request.budget, seed=request.seed, data_dir=self._data_dir
        )
