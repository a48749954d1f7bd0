"""How fast mrclab is: one file for each bench, and `frame`, which runs them, sums them up and compares results.

Every bench measures two things in turns on the same machine, in one run, and its figure is their ratio: absolute times
say more about a machine than about mrclab. Benches without such a yardstick say so by having no ratio.
"""
