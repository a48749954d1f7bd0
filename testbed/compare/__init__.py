"""The same traffic and faults over MRC and over its baselines, side by side.

`columns` derives the lab and the scenario of each column, `unlike` says what differs between them besides the
transport, `figures` what is read off a run, `stages` where columns run, `engine` runs them all, `told` says what they
came to, `page` shows it.
"""
