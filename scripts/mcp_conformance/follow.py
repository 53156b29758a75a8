"""A browser without a person: it follows an address to its end. `BROWSER` names it."""

import sys
import urllib.request

if __name__ == "__main__":
    with urllib.request.urlopen(sys.argv[1], timeout=20) as page:
        page.read()
