"""Commands: started by the launcher, read in bounds, ended together with their process trees."""
