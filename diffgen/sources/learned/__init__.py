"""Sources that are trained on the real images besides the GAN: their networks, and how they are trained and kept."""
