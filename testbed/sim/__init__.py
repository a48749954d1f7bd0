"""The protocol in virtual time: the same `agents.nic` that runs on the kernel lab, no root, no kernel, no clock.

`events` is the scheduler, `link` a cable with its queue and its faults, `network` the Clos made of them, `host` drives
a NIC as `agents.transport` says, `memory` watches that every byte is placed once, `pair` joins two hosts for tests,
`lab` is a whole lab with traffic.
"""
