import unittest

import orders


class ShopTest(unittest.TestCase):
    def test_a_total_has_the_tax_in_it(self):
        self.assertEqual(orders.total([100, 50]), 178.5)

    def test_a_receipt_names_the_currency(self):
        self.assertEqual(orders.receipt([100]), "total: 119.0 EUR")
