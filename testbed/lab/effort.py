"""How long `up` takes for a lab, computed from its size.

Each step of `up` is proportional to its work, with the costs below. One part is not: the kernel keeps all blocks of
traffic control in one list, and goes through it for each new one (`flow_indr_dev_setup_offload`). The costs are those
of the machine that docs/scale.md describes, in large labs; another machine may be faster or slower by a factor.
"""

from __future__ import annotations

from testbed.lab.size import Size

_NODE_S = 1.2e-3  # its namespace and settings
_LINK_S = 0.3e-3
_OBJECT_S = 32e-6  # to make it, and to read it back
_HOST_S = 5e-3  # its agent
_ASKED_S = 0.3e-3  # to have a host probe the paths of all planes to another one
_PATH_S = 0.07e-3  # one of these paths
_HASHED_PATH_S = 1.2e-3  # where the fabric hashes: until a probe has taken it
_IDLE_SHARE = 0.6e-3  # of the CPUs, that an agent takes while others are asked
_MOST_IDLE_SHARE = 0.9
_BLOCK_STEP_S = 9e-9  # from one block to the next
_ROUTER_S = 0.08  # the routing daemons of a switch
_CONVERGED_S = 2.5

_OBJECTS_PER_PORT = 11  # device, neighbour, route, qdiscs, classes, settings
_OBJECTS_PER_NODE = 8
_BLOCKS_PER_PORT = 4  # HTB's own, and one for each of its classes
_BLOCKS_PER_NODE = 2  # those that all ports share (plan.HOOK_BLOCKS)


def seconds(size: Size) -> float:
    """How long `up` takes on a machine with nothing else to do."""
    objects = size.routes + size.ports * _OBJECTS_PER_PORT + size.nodes * _OBJECTS_PER_NODE
    blocks = size.ports * _BLOCKS_PER_PORT + size.nodes * _BLOCKS_PER_NODE
    paths = size.pairs * size.t1s_per_plane * size.planes
    asked_s, path_s = (0.0, _HASHED_PATH_S) if size.hashed else (_ASKED_S, _PATH_S)
    left = 1 - min(size.hosts * _IDLE_SHARE, _MOST_IDLE_SHARE)
    proof_s = (size.pairs * size.t1s_per_plane * asked_s + paths * path_s) / left
    routers_s = size.routers * _ROUTER_S + _CONVERGED_S if size.routers else 0.0
    return (
        size.nodes * _NODE_S
        + size.links * _LINK_S
        + objects * _OBJECT_S
        + blocks * blocks / 2 * _BLOCK_STEP_S
        + size.hosts * _HOST_S
        + proof_s
        + routers_s
    )
