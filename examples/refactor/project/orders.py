"""Orders of the shop."""

from prices import show, with_tax


def total(prices):
    return sum(with_tax(price) for price in prices)


def receipt(prices):
    return "total: " + show(total(prices))
