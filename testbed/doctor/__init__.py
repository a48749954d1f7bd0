"""What this machine has and lacks, as a table of needs; each with what it is for and what mends it.

`checks()` looks at everything, `checks(verb)` at what one verb needs; `require(verb)` refuses with MissingError (exit
code 3) in the same words before a verb begins. Kernel features are tried, not guessed (`testbed.scratch`). What cannot
be seen without root is said to be unknown, and never refuses.
"""

from testbed.doctor.needs import NEEDS, checks, require
from testbed.doctor.row import Look, Row
from testbed.doctor.software import PACKAGES_FILE

__all__ = ["NEEDS", "PACKAGES_FILE", "Look", "Row", "checks", "require"]
