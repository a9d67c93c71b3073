"""When the GAN of the source ``mixed`` comes: decided before a run, done in its search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffgen.comparison.prepared import Prepared
from diffgen.comparison.requirements import needs_of
from diffgen.config import CompareConfig, replace
from diffgen.errors import RunError, Stopped
from diffgen.events import Progress
from diffgen.models.loading import file_digest
from diffgen.search.loop import SearchLoop
from diffgen.sources.base import ImageSource
from diffgen.sources.mixed_family import fits_gan
from diffgen.sources.registry import family_of
from diffgen.types import ImageSet

# The seeds alone are searched for so many queries. A number of queries, not of seconds or finds: the same for each run.
QUERIES = 2_000


def with_time_of_gan(config: CompareConfig, images: ImageSet, *, progress: Progress) -> CompareConfig:
    """The settings with ``source.gan`` decided: without a word of the user, no GAN joins (docs/decisions/053)."""
    if not needs_of(config).source or family_of(config).name != "mixed":
        return config
    when = config.source.gan
    if config.gan_file is not None or "discriminator" in (config.filters.names or ()):
        when = "now"
    elif when == "auto":
        when = "never"
    elif when == "later" and not fits_gan(images.image_shape):
        progress.say("No GAN fits images of this size, so that all pictures are made from real ones.")
        when = "never"
    return replace(config, source=replace(config.source, gan=when))


class Joining:
    """Lets the missing part of a source join a search.

    Args:
        prepared: what the search works with.
        loop: the search.

    Attributes:
        source: what pictures come from by now.
    """

    def __init__(self, prepared: Prepared, loop: SearchLoop) -> None:
        self._prepared = prepared
        self._loop = loop
        self.source = prepared.source

    def after_generation(self) -> None:
        """Let it join when its time has come."""
        if self.source.join is not None and self._loop.evaluator.queries >= QUERIES and self._loop.room() > 0:
            self._join()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Let it join when it had joined before the checkpoint ``state``."""
        if self.source.join is not None and len(state.get("opened", ())) > 1:
            self._join()

    def _join(self) -> None:
        loop, folder = self._loop, self._prepared.folder
        assert self.source.join is not None
        try:
            self.source = self.source.join(lambda: loop.room() < 1)
        except Stopped:
            return  # the search ends now; what was trained is kept for the next one
        except RunError as error:
            # what was found is worth more than the rest of the search: that it comes to its end
            self.source = replace(self.source, join=None)
            self._prepared.progress.warn(f"{error} The search goes on without a GAN.")
            return
        assert self.source.artifact is not None
        digest, before = file_digest(self.source.artifact), folder.manifest.get("gan")
        if before not in (None, digest):
            self._prepared.progress.warn(
                "The GAN that joined the run before it broke off is no longer in the cache, and the one that was "
                "trained now differs; the run goes on, but ends with other triggers than without the break."
            )
        folder.save_manifest(gan=digest)


def joined_before(prepared: Prepared) -> ImageSource:
    """The source of a search that is finished, with the part that joined in it."""
    source = prepared.source
    if source.join is None or prepared.folder.manifest.get("gan") is None:
        return source
    return source.join(lambda: False)
