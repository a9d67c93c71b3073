"""What is kept on disk: run folders, their parts and checkpoints, and the cache."""
