"""Commands: started by the launcher, read in bounds, ended with everything below them."""
