"""Clustermapper (paper, section 3): self-probes over the paths of the data, localisation, denylist policy. Sans-IO.

`prober` is what each NIC has: schedule, probes, one `track` for each path, and the `policy` for its own planes.
`localise` is what whoever gathers the reports of all hosts has. `evidence` is the arithmetic of both.
"""
