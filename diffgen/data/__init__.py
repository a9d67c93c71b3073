"""Image sets: one file per source, all behind :func:`load`."""

from diffgen.data.loading import Source, load

__all__ = ["Source", "load"]
