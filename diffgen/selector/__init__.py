"""Which of several models to trust, told from the picture alone (paper, section 5.4)."""
