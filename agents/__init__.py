"""The agents: one process per host that is its NIC. Everything outside `rawio` and `daemon` is sans-IO."""
