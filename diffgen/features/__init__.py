"""Feature extractors: networks that turn images into vectors."""
