"""Drives nodes on other machines, which Ray places and watches."""
