"""Nicknames, for display only: each is used once, then again as `Euler the 2nd`."""

import random
from collections.abc import Sequence

_LIST = """
Abel Agnesi Alhazen Ampere Anning Archimedes Aryabhata Avicenna Babbage Banneker Bernoulli
Bhaskara Bohr Boole Bose Brahe Brahmagupta Cantor Carnot Carson Cauchy Cavendish Chandra
Chatelet Copernicus Curie Dalton Darwin Dedekind Democritus Descartes Dirac Dirichlet
Eratosthenes Erdos Euclid Euler Faraday Fermat Fermi Feynman Fibonacci Fourier Franklin Galileo
Galois Gauss Germain Godel Goeppert Grothendieck Halley Hamilton Herschel Hertz Hilbert Hodgkin
Hopper Hubble Huygens Hypatia Joule Kepler Khayyam Kovalevskaya Lagrange Laplace Lavoisier
Leavitt Leibniz Lovelace Maxwell Meitner Mendel Mendeleev Mirzakhani Newton Noether Pascal
Pasteur Payne Poincare Ptolemy Pythagoras Ramanujan Riemann Rubin Rutherford Sagan Shannon
Somerville Tesla Thales Turing Volta Wallace Wu Zhang
"""
DEFAULT_NICKNAMES: tuple[str, ...] = tuple(_LIST.split())


class NicknamePool:
    """The nicknames used in this run. Source: Codex's rule; the list is ours.

    A name is never given back: neither by an agent's end nor by a spawn that failed.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._random = rng or random.Random()
        self._used: set[str] = set()
        self._resets = 0

    def take(self, candidates: Sequence[str] = DEFAULT_NICKNAMES, *, preferred: str = "") -> str:
        """A nickname not used since the last reset.

        Args:
            candidates: A role's own names, or the default list.
            preferred: Taken as it is, also when in use: a resumed agent keeps its name.

        Raises ValueError if there are no candidates.
        """
        if preferred:
            self._used.add(preferred)
            return preferred
        if not candidates:
            raise ValueError("no available agent nicknames")
        free = self._free(candidates)
        if not free:
            self._used.clear()
            self._resets += 1
            free = self._free(candidates)
        chosen = self._random.choice(free)
        self._used.add(chosen)
        return chosen

    def _free(self, candidates: Sequence[str]) -> list[str]:
        named = (with_ordinal(name, self._resets) for name in candidates)
        return [name for name in named if name not in self._used]


def with_ordinal(name: str, resets: int) -> str:
    """`Euler` before the first reset, then `Euler the 2nd`, `the 3rd`, … `the 11th`, `the 21st`."""
    if resets == 0:
        return name
    number = resets + 1
    teen = 10 < number % 100 < 14
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{name} the {number}{ending}"
