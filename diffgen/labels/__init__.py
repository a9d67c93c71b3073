"""Labels of triggers: what the pictures really show, as people, reference models or the generator say."""
