"""What the command line and the Python API call: one file per piece of work."""
