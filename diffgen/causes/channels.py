"""Channel order: BGR for RGB, as OpenCV reads pictures; colours lost; black and white exchanged."""

from __future__ import annotations

from collections.abc import Iterator

from diffgen.causes.base import Cause, Change, Seen, Stage
from diffgen.config import Preprocessing, replace

_GREY = (0.299, 0.587, 0.114)  # ITU-R BT.601


class ChannelOrder(Cause):
    name = "channels"

    def changes(self, seen: Seen) -> Iterator[Change]:
        if seen.image_shape[0] == 3:
            yield Change(
                "channel order: BGR",
                "takes the channels in the opposite order (BGR for RGB)",
                Stage.CHANNELS,
                lambda pixels: pixels.flip(1),
                "hand the channels over as R, G, B",
                _other_order,
                lambda own: _other_order(own, own)[-1],
            )
            yield Change(
                "channels: grey",
                "sees no colours",
                Stage.CHANNELS,
                lambda pixels: (
                    (pixels * pixels.new_tensor(_GREY).view(3, 1, 1)).sum(1, keepdim=True).expand(-1, 3, -1, -1)
                ),
                "read the pictures in colour",
            )
        yield Change(
            "inverted",
            "sees black for white, and white for black",
            Stage.CHANNELS,
            lambda pixels: 255 - pixels,
            "leave the grey levels as they are",
            lambda own, other: [_inverted(own)],
            _inverted,
        )


def _other_order(own: Preprocessing, other: Preprocessing) -> list[Preprocessing]:
    flipped = replace(own, channels="rgb" if own.channels == "bgr" else "bgr")
    # mean and std belong to the channels as they are handed over, unless whoever gave them forgot the order
    both = replace(flipped, mean=(own.mean or ())[::-1], std=(own.std or ())[::-1])
    return [flipped] if both == flipped else [flipped, both]


def _inverted(own: Preprocessing) -> Preprocessing:
    return replace(own, invert=not own.invert)
