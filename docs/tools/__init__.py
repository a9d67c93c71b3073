"""What makes pages and pictures of the site."""
