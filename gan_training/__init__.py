"""Training of the generative adversarial network that gives the search its latent space."""
