"""Puts the server together: safety around views and APIs, workers beneath them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from plotly.offline import get_plotlyjs

import principia
from principia.lab.course import catalog, fingerprint
from principia.lab.environment import cores
from principia.lab.web.gate.answers import KeptAnswers, answer_errors
from principia.lab.web.pages import claims_api, heroes_api, playground_api
from principia.lab.web.pages import views as page_views
from principia.lab.web.pages.content import search_index
from principia.lab.web.pages.playgrounds import Playgrounds
from principia.lab.web.processes.shares import Shares, machine_memory
from principia.lab.web.processes.workers import Workers
from principia.lab.web.runs import api as runs_api
from principia.lab.web.runs import views as runs_views
from principia.lab.web.runs.running import Runs

__all__ = ["create_app"]


def create_app(runs_dir: Path, *, data_dir: str | None = None) -> FastAPI:
    """Make the application, without its doors: `safety.Safety` goes around it.

    Args:
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets.
    """
    shares = Shares.of(machine_memory(), cores())
    workers = Workers(slots=shares.measurements.count, waiting=64, limits=shares.measuring())

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(app.state.workers.warm_up())
        yield
        warming.cancel()
        await app.state.playgrounds.close()
        await app.state.runs.close()
        await app.state.workers.close()

    app = FastAPI(
        title="Principia", version=principia.__version__, openapi_url="/api/openapi.json",
        docs_url=None, redoc_url=None, lifespan=life,  # their pages would load from a CDN
        description="Measure claims, run experiments, and train in the playground.",
    )
    app.state.workers = workers
    app.state.measured = KeptAnswers()
    app.state.runs = Runs(runs_dir, workers, data_dir, share=shares.runs)
    app.state.playgrounds = Playgrounds(
        workers, most=shares.playgrounds.count, limits=shares.playing()
    )
    fingerprint.note(*(page for chapter in catalog.chapters() for page in chapter.pages))
    app.state.plotly = get_plotlyjs().encode()
    app.state.index = search_index(page_views.HERE.page)  # which reads every page, once and for all
    answer_errors(app)
    for module in (claims_api, heroes_api, runs_api, playground_api, runs_views, page_views):
        app.include_router(module.router)
    return app
