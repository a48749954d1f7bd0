"""`python -m testbed.cli`: what the mrclab script runs."""

from testbed.cli.main import main

main()
