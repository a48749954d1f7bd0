"""The MRC transport, sans-IO: multipath, selective retransmission, a path retired at its first loss.

Follows the MRC paper (arXiv 2605.04333, section 3) and the OCP MRC 1.0 text as publicly transcribed. `qp` joins the
parts: `requester` sends (with `ev_set`, `scoreboard`, `loss`, `congestion`), `responder` receives (with `arrivals`).
"""
