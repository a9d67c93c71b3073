"""Image sets: one file per source, all behind :func:`load`."""

from diffgen.data.loading import Source, is_word, load

__all__ = ["Source", "is_word", "load"]
