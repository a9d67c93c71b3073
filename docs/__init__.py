"""The site: pages, pictures, and what makes them."""
