"""Weight-space learning: neural networks whose input is the weights of other networks."""

__version__ = "0.1.0"
