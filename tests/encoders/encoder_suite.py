"""The tests that every encoder must pass: a subclass names the encoder, and gets the whole battery."""

from numerics_suite import NumericsSuite
from symmetry_suite import SymmetrySuite


class EncoderSuite(SymmetrySuite, NumericsSuite):
    """Subclass it as ``TestName``, and implement :meth:`make`.

    Families that read some architectures only say which: ``kinds`` of random specifications, ``takes`` of
    those written by hand, and ``takes_traced`` of the traced ones (all if ``None``). They must refuse the
    others. What an encoder cannot do, it says by the flags of the base classes.
    """
