"""The agents: one process per host that is its NIC. Everything outside `rawio` and `daemon` is sans-IO."""

from agents import compiled as _compiled

_compiled.use(__path__)
