"""The error of this package."""


class BenchError(ValueError):
    """A bench cannot be run as asked, or its folder holds something else."""
