"""The one error class of the zoo store."""


class ZooError(ValueError):
    """A zoo file, a build or a request to a zoo is at fault; the message says what, where and the way out."""
