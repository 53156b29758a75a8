"""The language and the post: what processes say to each other, and how it arrives."""
