"""The protocol in virtual time: the same `agents` that run on the kernel lab, no root, no kernel, no clock.

`events` is the scheduler, `packet` and `link` what goes through a port and its cable, `network` the Clos made of them
(`hashed`: one whose switches hash), `ports` what faults do to it, `host` drives a NIC as `agents.transport` says,
`memory` watches that every byte is placed once, `pair` joins two hosts for tests, `lab` is a whole lab with its agents,
and `agents` asks these as the control sockets do on a real one. docs/simulation.md has what is simpler than there.
"""
