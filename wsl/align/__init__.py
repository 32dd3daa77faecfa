"""Alignment: bring networks of one architecture into the order of others, by elements of the symmetry group.

``a`` is the reference and ``b`` the one that moves, always. Alignments return a
:class:`wsl.symmetry.Action`, which ``wsl.symmetry.apply`` carries out.
"""

from wsl.align._gains import similarity
from wsl.align._weight_matching import weight_matching

__all__ = ["similarity", "weight_matching"]
