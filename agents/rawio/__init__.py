"""Sockets and clocks of an agent, and nothing of its protocol.

`port` sends and receives on one NIC port, `carrier` watches the links, `loop` pumps a sans-IO NIC, `control` is the
agent's unix socket, `libc` the few system calls that Python 3.11 lacks. Only this room has sockets and clocks.
"""
