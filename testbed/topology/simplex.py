"""A small linear program: maximise c.x with A.x <= b, x >= 0 and b >= 0, by the simplex method on sparse rows.

For the few hundred variables of one damaged plane. The column that helps most enters; after a few steps without
progress it is the lowest one that helps (Bland's rule), which cannot cycle: flows through a Clos are degenerate enough
for that to matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Coefficients are near 1, so that anything this small is rounding. Never pivot on what may be rounding.
_ZERO = 1e-12
_GAIN = 1e-9
_PIVOT = 1e-7

_PATIENCE = 50  # steps without progress before Bland's rule

Row = dict[int, float]


class Simplex:
    """The program's rows and its present corner, which starts at x = 0 and moves with each `maximise`.

    Variables are 0..columns-1; the slack of row i is column `columns + i`.
    """

    def __init__(self, columns: int, rows: Sequence[Mapping[int, float]], limits: Sequence[float]) -> None:
        self._columns = columns
        self._rows: list[Row] = [{**row, columns + i: 1.0} for i, row in enumerate(rows)]
        self._values = list(limits)
        self._basis = [columns + i for i in range(len(rows))]
        self._barred: set[int] = set()

    def maximise(self, objective: Mapping[int, float]) -> list[float]:
        """Move to a corner that maximises the objective. Returns each row's price: what one more of it earns."""
        gain = {column: factor for column, factor in objective.items() if factor}
        for row, column in enumerate(self._basis):
            _subtract(gain, self._rows[row], gain.get(column, 0.0))
        stalled = 0
        while helpful := [c for c, factor in gain.items() if factor > _GAIN and c not in self._barred]:
            column = min(helpful) if stalled > _PATIENCE else max(helpful, key=lambda c: (gain[c], -c))
            row = self._limiting(column, lowest=stalled > _PATIENCE)
            stalled = 0 if self._values[row] > _GAIN else stalled + 1
            self._pivot(row, column)
            _subtract(gain, self._rows[row], gain[column])
        return [max(0.0, -gain.get(self._columns + row, 0.0)) for row in range(len(self._rows))]

    def value(self, column: int) -> float:
        """The value of a variable at the present corner."""
        return self._values[self._basis.index(column)] if column in self._basis else 0.0

    def hold(self, row: int) -> None:
        """Keep a row that is at its limit there, whatever is maximised next."""
        slack = self._columns + row
        if slack in self._basis:  # the corner has other reasons too, so that the row could still move away
            where = self._basis.index(slack)
            self._values[where] = 0.0
            others = {column: abs(factor) for column, factor in self._rows[where].items() if column != slack}
            if others:
                self._pivot(where, max(others, key=lambda column: (others[column], -column)))
        self._barred.add(slack)

    def _limiting(self, column: int, lowest: bool) -> int:
        """The row that stops `column` first; of several, the one of the lowest basic variable or the largest pivot."""
        ratios = [
            (self._values[row] / factor, -self._basis[row] if lowest else factor, row)
            for row, coefficients in enumerate(self._rows)
            if (factor := coefficients.get(column, 0.0)) > _PIVOT
        ]
        if not ratios:
            raise ValueError("the program has no maximum")
        least = min(ratios)[0]
        return max((preference, row) for ratio, preference, row in ratios if ratio <= least + _ZERO)[1]

    def _pivot(self, row: int, column: int) -> None:
        factor = self._rows[row][column]
        pivot_row = {other: value / factor for other, value in self._rows[row].items()}
        pivot_value = self._values[row] / factor
        self._rows[row], self._values[row], self._basis[row] = pivot_row, pivot_value, column
        for other, coefficients in enumerate(self._rows):
            if other != row and (share := coefficients.get(column)):
                _subtract(coefficients, pivot_row, share)
                self._values[other] = max(0.0, self._values[other] - share * pivot_value)


def _subtract(target: Row, row: Mapping[int, float], factor: float) -> None:
    """target -= factor * row, keeping it sparse."""
    if not factor:
        return
    for column, value in row.items():
        rest = target.get(column, 0.0) - factor * value
        if abs(rest) > _ZERO:
            target[column] = rest
        else:
            target.pop(column, None)
