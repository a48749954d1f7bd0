"""The baseline, sans-IO: RoCEv2 reliable connections with go-back-N and DCQCN, behind the same interface as MRC.

One path per queue pair, in order or not at all. `qp` joins the parts: `requester` sends (paced by `dcqcn`),
`responder` receives.
"""
