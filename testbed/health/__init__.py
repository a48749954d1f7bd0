"""Clustermapper's other half: gathers all hosts' reports, keeps the map of links, deals shares, measures the cost."""
