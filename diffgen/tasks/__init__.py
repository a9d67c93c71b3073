"""What a model's answers mean: when answers disagree, who says what, and how that is put into words."""
