"""Which of the found triggers count: what the filters say of them, and whether the models answer alike again."""
