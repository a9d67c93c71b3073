"""Pure functions that measure images and sets of images."""
