"""Deriving the weight-space specification of any ``nn.Module`` by running it once."""

from wsl.trace._errors import TraceError
from wsl.trace._run import trace

__all__ = ["TraceError", "trace"]
