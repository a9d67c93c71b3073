"""Latent vectors to images."""
