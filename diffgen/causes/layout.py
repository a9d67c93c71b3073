"""Layout: a buffer of one order of axes read as one of another order."""

from __future__ import annotations

from collections.abc import Iterator

from diffgen.causes.base import Cause, Change, Seen, Stage


class Layout(Cause):
    name = "layout"

    def changes(self, seen: Seen) -> Iterator[Change]:
        channels, height, width = seen.shape
        if channels > 1:
            yield Change(
                "layout: NHWC read as NCHW",
                "reads a buffer of (height, width, channels) as one of (channels, height, width)",
                Stage.INPUT,
                lambda pixels: pixels.permute(0, 2, 3, 1).reshape(pixels.shape),
                "transpose the axes in place of renaming them",
            )
            yield Change(
                "layout: NCHW read as NHWC",
                "reads a buffer of (channels, height, width) as one of (height, width, channels)",
                Stage.INPUT,
                lambda pixels: pixels.reshape(-1, height, width, channels).permute(0, 3, 1, 2),
                "transpose the axes in place of renaming them",
            )
        if height == width:
            yield Change(
                "layout: height and width exchanged",
                "takes rows for columns",
                Stage.INPUT,
                lambda pixels: pixels.transpose(2, 3),
                "hand the picture over row by row",
            )
