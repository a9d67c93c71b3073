"""What the page loads besides itself: pictures, contact sheets, reports and zip files of a run."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, PlainTextResponse, Response

from diffgen import api
from diffgen.data.picture_file import encode_png
from diffgen.errors import DiffgenError, UserError
from diffgen.ui.draw.strip import strip_of
from diffgen.ui.labelling import Sheets
from diffgen.ui.seen import Seen

_LONGEST_VOTE = 4096  # bytes
_LONGEST_STRIP = 100  # pictures
# A report may come from a stranger: it may run its own script, but as a page of nowhere, and asks nobody.
_REPORT_POLICY = (
    "sandbox allow-scripts allow-popups allow-downloads; default-src 'none'; img-src data: 'self'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'"
)
_KEPT = {"Cache-Control": "private, max-age=86400"}
_NOT_KEPT = {"Cache-Control": "no-store"}


def add_routes(app: FastAPI, seen: Seen, sheets: Sheets) -> None:
    """Add all of them to an application."""
    place = seen.place

    @app.exception_handler(DiffgenError)
    def told(request: Request, error: Exception) -> Response:
        return PlainTextResponse(str(error), status_code=404, headers=_NOT_KEPT)

    @app.get("/files/{run}/picture/{number}.png")
    def picture(run: str, number: int) -> Response:
        return _png(seen.pictures(run, [number])[0])

    @app.get("/files/{run}/sheet.png")
    def strip(run: str, n: str) -> Response:
        numbers = [int(each) for each in n.split(",") if each.isascii() and each.isdigit()]
        if not 0 < len(numbers) <= _LONGEST_STRIP or len(n) > 20 * _LONGEST_STRIP:
            raise UserError(f"Name 1 to {_LONGEST_STRIP} triggers, as in ?n=3,17.")
        return _png(strip_of(seen.pictures(run, numbers)))

    @app.get("/files/{run}/seed/{number}.png")
    def seed(run: str, number: int) -> Response:
        image = seen.finds(run).seed(number)
        if image is None:
            raise UserError("This picture was not made from a real image.")
        return _png(image)

    @app.get("/files/{run}/nearest/{number}.png")
    def nearest(run: str, number: int) -> Response:
        image = seen.finds(run).find(number).picture.nearest_real
        if image is None:
            raise UserError("Of this picture nobody looked for the nearest real image.")
        return _png(image)

    @app.get("/files/{run}/shrunk/{number}/{side}.png")
    def shrunk(run: str, number: int, side: str) -> Response:
        pair = seen.finds(run).find(number).shrunk
        if pair is None:
            raise UserError("This picture was not shrunk.")
        return _png((pair.agreeing if side == "agreeing" else pair.trigger).image)

    @app.get("/files/{run}/report.html")
    def report(run: str) -> Response:
        page = place.known(run) / "report.html"
        if page.is_symlink() or not page.is_file():
            raise UserError(f"The run {run} has no report yet.")
        headers = {**_NOT_KEPT, "Content-Security-Policy": _REPORT_POLICY}
        return FileResponse(page, media_type="text/html", headers=headers)

    @app.get("/files/{run}/export.zip")
    def export(run: str) -> Response:
        folder = place.known(run)
        rooms = Path(tempfile.mkdtemp(prefix="diffgen-export-"))
        try:
            api.export(folder, rooms / run)
            packed = shutil.make_archive(str(rooms / "export"), "zip", rooms, run)
        except BaseException:
            shutil.rmtree(rooms)
            raise
        done = BackgroundTasks()
        done.add_task(shutil.rmtree, rooms)
        return FileResponse(packed, filename=f"{run}.zip", headers=_NOT_KEPT, background=done)

    @app.get("/labels/{run}/{identifier}.png")
    def sheet_picture(run: str, identifier: str) -> Response:
        return FileResponse(sheets.picture(run, identifier), media_type="image/png", headers=_KEPT)

    @app.post("/labels/{run}/{person}")
    async def vote(run: str, person: str, request: Request) -> Response:
        body = await request.body()
        try:
            said: dict[str, Any] = json.loads(body[:_LONGEST_VOTE])
            # beside the loop, which serves everybody: it waits for its turn and for the disk
            await run_in_threadpool(sheets.vote, run, person, str(said["id"]), str(said["label"]))
        except (ValueError, KeyError, TypeError) as error:
            return PlainTextResponse(f"This is no label ({error}).", status_code=400)
        return Response(status_code=204)


def _png(image: Any) -> Response:
    return Response(encode_png(image), media_type="image/png", headers=_KEPT)
