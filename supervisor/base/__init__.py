"""What the supervisor's folders share, and which knows none of them."""
