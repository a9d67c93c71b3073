"""What images look like to a network."""
