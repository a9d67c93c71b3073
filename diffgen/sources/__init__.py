"""Where images come from: families of sources, each of which draws images from genes of its own space."""
