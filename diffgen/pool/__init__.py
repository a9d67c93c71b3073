"""Calls of functions elsewhere, several at once: in processes of this machine, or on a Ray cluster."""
