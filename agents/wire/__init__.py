"""Bytes <-> dataclasses: RoCEv2 and MRC headers, ICRC, uSIDs, the address plan, prebuilt frames. Pure."""
