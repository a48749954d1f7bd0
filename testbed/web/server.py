"""The server of the page: a table of routes over a followed lab, or over a recording.

Reading is free for whom `guard` lets in; each change answers when it is done, with what it did, or with 409 and the
words that the command line would have said. Answers to what was asked are JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from testbed.chaos import by_hand
from testbed.measure.view import Message
from testbed.report import page
from testbed.topology import library
from testbed.topology.errors import MrclabError
from testbed.web import menu, metrics
from testbed.web.broadcast import Broadcast
from testbed.web.following import Following
from testbed.web.guard import Guard
from testbed.web.live import LiveLab
from testbed.web.menu import BadRequestError
from testbed.web.runs import Runs

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def live_app(name: str | None, token: str, hosts: list[str], runs_dir: Path) -> Starlette:
    """The page of the lab `name`, or of the one that is up. `hosts`: what the Host header may be."""
    return _Live(name, runs_dir).app(token, hosts)


def replay_app(recording: Message, token: str, hosts: list[str]) -> Starlette:
    """The page of a recorded run."""
    html = page.whole(recording)

    async def show(request: Request) -> Response:
        return HTMLResponse(html, headers={"content-security-policy": page.WHOLE_POLICY})

    return Starlette(routes=[Route("/", show)], middleware=[Middleware(Guard, token=token, hosts=hosts)])


async def _show_page(request: Request) -> Response:
    html, policy = page.served()
    return HTMLResponse(html, headers={"content-security-policy": policy})


async def _show_asset(request: Request) -> Response:
    asset = page.ASSETS.get(request.path_params["name"])
    if asset is None:
        return JSONResponse({"error": "there is no such file"}, 404)
    return FileResponse(page.FOLDER / request.path_params["name"], media_type=asset)


_PAGE_ROUTES = [Route("/", _show_page), Route("/page/{name}", _show_asset)]


class _Live:
    """The routes of a live page, and what they work on."""

    def __init__(self, name: str | None, runs_dir: Path) -> None:
        self._broadcast = Broadcast()
        self._runs = Runs(lambda message: self._broadcast.publish([message]), runs_dir)
        self._endings: dict[int, asyncio.Task[None]] = {}  # of faults that end by themselves
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lab = LiveLab(name, self._publish)

    def app(self, token: str, hosts: list[str]) -> Starlette:
        """The application."""
        post = ["POST"]
        routes = [
            *_PAGE_ROUTES,
            Route("/events", self._events),
            Route("/menu.json", _told(self._menu)),
            Route("/link/{name}", _told(self._link)),
            Route("/flow/{name}", _told(self._flow)),
            Route("/report", self._report),
            Route("/metrics", self._metrics),
            Route("/faults", _told(self._put), methods=post),
            Route("/faults/clear", _told(self._clear), methods=post),
            Route("/health/start", _told(self._probe), methods=post),
            Route("/health/stop", _told(self._probe_no_more), methods=post),
            Route("/runs", _told(self._start), methods=post),
            Route("/runs/stop", _told(self._stop), methods=post),
        ]
        middleware = [Middleware(Guard, token=token, hosts=hosts)]
        app = Starlette(routes=routes, middleware=middleware, lifespan=self._lifespan)
        app.router.redirect_slashes = False  # another path is no path
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        self._lab.start()
        try:
            yield
        finally:
            await self._runs.close()
            for ending in list(self._endings.values()):
                ending.cancel()
            await asyncio.gather(*self._endings.values(), return_exceptions=True)
            await asyncio.to_thread(self._lab.stop)

    def _publish(self, messages: list[Message]) -> None:
        """Called in the lab's thread."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._broadcast.publish, messages)

    async def _ask(self, what: Callable[[Following], T]) -> T:
        future: Future[T] = self._lab.ask(what)
        return await asyncio.wrap_future(future)

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._watched(), media_type="text/event-stream")

    async def _watched(self) -> AsyncIterator[bytes]:
        self._lab.watched.set()
        try:
            async for data in self._broadcast.stream():
                yield data
        finally:
            if self._broadcast.viewers <= 1:
                self._lab.watched.clear()

    async def _menu(self, request: Request) -> Any:
        return {"kinds": menu.kinds(), "scenarios": library.names("scenarios")}

    async def _link(self, request: Request) -> Any:
        return await self._ask(lambda following: following.link_now(request.path_params["name"]))

    async def _flow(self, request: Request) -> Any:
        return await self._ask(lambda following: following.ev_map(request.path_params["name"]))

    async def _report(self, request: Request) -> Response:
        if self._runs.report is None or not self._runs.report.is_file():
            return JSONResponse({"error": "no run that was started here has ended"}, 404)
        # a page with scripts of its own, kept apart from ours
        return FileResponse(self._runs.report, headers={"content-security-policy": "sandbox allow-scripts"})

    async def _metrics(self, request: Request) -> Response:
        try:
            text = metrics.render(await self._ask(Following.counters))
        except MrclabError:
            text = metrics.render(None)
        return Response(text, media_type=metrics.CONTENT_TYPE)

    async def _put(self, request: Request) -> Any:
        kind, target, end, options = await _fields(request, kind=str, target=str, end=str | None, options=dict | None)
        chosen = menu.choice(kind, end, options or {})
        fault = await self._ask(lambda following: by_hand.put(following.lab, kind, target, chosen.end, chosen.options))
        if chosen.lasts_ns is not None:
            self._endings[fault.number] = asyncio.create_task(self._end_after(fault.number, chosen.lasts_ns))
        return {"number": fault.number}

    async def _end_after(self, number: int, lasts_ns: int) -> None:
        """Undo a fault of a kind that ends by itself; also when the server ends before that."""
        try:
            await asyncio.sleep(lasts_ns / 1e9)
        finally:
            with contextlib.suppress(MrclabError):  # it was undone by hand, or the lab is gone
                await self._ask(lambda following: by_hand.clear(following.lab, number))
            self._endings.pop(number, None)

    async def _clear(self, request: Request) -> Any:
        (number,) = await _fields(request, number=int | None)
        undone = await self._ask(lambda following: by_hand.clear(following.lab, number))
        return {"undone": [fault.number for fault in undone]}

    async def _probe(self, request: Request) -> Any:
        await self._ask(lambda following: following.links.start())
        return {}

    async def _probe_no_more(self, request: Request) -> Any:
        await self._ask(lambda following: following.links.stop())
        return {}

    async def _start(self, request: Request) -> Any:
        scenario, load = await _fields(request, scenario=str | None, load=int | None)
        spec, source = await self._ask(lambda following: (following.lab.spec, following.lab.source_file))
        if scenario is not None:
            await self._runs.start(scenario, source)
        elif load is not None:
            await self._runs.start_traffic(spec, load, source)
        else:
            raise BadRequestError("a run needs a scenario, or a load in percent")
        return {}

    async def _stop(self, request: Request) -> Any:
        self._runs.stop()
        return {}


def _told(handler: Callable[[Request], Awaitable[Any]]) -> Handler:
    """The handler's value, or its refusal, as JSON."""

    async def answer(request: Request) -> Response:
        try:
            return JSONResponse(await handler(request))
        except BadRequestError as error:
            return JSONResponse({"error": str(error)}, 400)
        except MrclabError as error:
            return JSONResponse({"error": str(error)}, 409)

    return answer


async def _fields(request: Request, **kinds: Any) -> list[Any]:
    """The fields of a JSON body in the order of `kinds`, None where one may be left out. Raises BadRequestError."""
    try:
        body = json.loads(await request.body())
    except ValueError:
        raise BadRequestError("the body is no JSON") from None
    if not isinstance(body, dict) or not set(body) <= set(kinds):
        raise BadRequestError(f"the body is an object with {', '.join(kinds)}")
    for name, kind in kinds.items():
        value = body.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise BadRequestError(f"{name} is missing or of the wrong type")
    return [body.get(name) for name in kinds]
