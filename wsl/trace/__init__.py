"""Deriving the weight-space specification of any ``nn.Module`` by running it once."""

from wsl.trace._run import TraceError, trace

__all__ = ["TraceError", "trace"]
