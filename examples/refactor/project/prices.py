"""Prices of the shop, in euros."""

TAX = 19  # percent


def tax(price):
    return price * TAX / 100


def with_tax(price):
    return price + tax(price)


def show(price):
    return "%s EUR" % price
