"""What the page loads besides itself: pictures, contact sheets, reports and zip files of a run."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from diffgen import api
from diffgen.errors import DiffgenError, UserError
from diffgen.runs.pictures import png_bytes
from diffgen.ui.labelling import Sheets, WrongLabel
from diffgen.ui.pieces import strip_of
from diffgen.ui.place import Seen

_LONGEST_VOTE = 4096  # bytes
_LONGEST_STRIP = 100  # pictures
_NUMBER = re.compile(r"[0-9]{1,15}")
_PIECE = 1 << 20  # bytes of a file that are sent at once
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
        words = n.split(",")
        if len(words) > _LONGEST_STRIP or not all(map(_NUMBER.fullmatch, words)):
            raise UserError(f"Name 1 to {_LONGEST_STRIP} triggers, as in ?n=3,17.")
        return _png(strip_of(seen.pictures(run, [*map(int, words)])))

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
        with tempfile.TemporaryDirectory(prefix="diffgen-export-") as rooms:
            api.export(folder, Path(rooms) / run)
            # open while its name goes: nothing stays when the browser breaks the download off
            packed = FileIO(shutil.make_archive(f"{rooms}/export", "zip", rooms, run))
        headers = {
            **_NOT_KEPT,
            "Content-Disposition": f"attachment; filename*=utf-8''{quote(run)}.zip",
            "Content-Length": str(os.fstat(packed.fileno()).st_size),
        }
        return StreamingResponse(_pieces(packed), media_type="application/zip", headers=headers)

    @app.get("/labels/{run}/{identifier}.png")
    def sheet_picture(run: str, identifier: str) -> Response:
        return FileResponse(sheets.picture(run, identifier), media_type="image/png", headers=_KEPT)

    @app.post("/labels/{run}/{person}")
    async def vote(run: str, person: str, request: Request) -> Response:
        body = b""
        async for piece in request.stream():  # no more than a vote can be: a body of any length would fill the memory
            body += piece
            if len(body) > _LONGEST_VOTE:
                return PlainTextResponse(f"A label has at most {_LONGEST_VOTE} bytes.", status_code=413)
        try:
            said: dict[str, Any] = json.loads(body)
            # beside the loop, which serves everybody: it waits for its turn and for the disk
            version = await run_in_threadpool(sheets.vote, run, person, str(said["id"]), str(said["label"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:  # the last one: brackets in brackets
            return PlainTextResponse(f"This is no label ({error}).", status_code=400)
        except WrongLabel as error:
            return PlainTextResponse(str(error), status_code=422)
        return JSONResponse({"version": version})


def _pieces(file: FileIO) -> Iterator[bytes]:
    with file:
        yield from iter(partial(file.read, _PIECE), b"")


def _png(image: Any) -> Response:
    return Response(png_bytes(image), media_type="image/png", headers=_KEPT)
