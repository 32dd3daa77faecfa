"""The error of this package."""


class ReportError(ValueError):
    """A run's folder lacks what a figure needs, or it does not read as such."""
