"""The grid of a map: one cell for each broker, near the linked brokers. Pure.

Each second row is moved by half a cell, so a line to the next but one row does not run through the broker between.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

CELL_X: Final = 150  # units; a cell has one broker with its name
CELL_Y: Final = 74
SPARE: Final = 1.9  # cells for each broker, so that the layout keeps its shape
ASPECT: Final = 1.4  # width by height of the grid, up to the most columns
MOST_ACROSS: Final = 8  # columns, so that a map fits into a window of 1,280 pixels
SWEEPS: Final = 12  # rounds in which brokers change their cells; few networks need more than six
REACH: Final = 2  # cells around the middle of its neighbours that a broker may move to
LEAST_GAIN: Final = 1.0  # units by which a move must shorten the lines

Cell = tuple[int, int]  # column and row


class MapGrid:
    """Brokers in cells; starts with the nearest free cell to each position."""

    def __init__(self, positions: Mapping[str, tuple[float, float]], edges: Iterable[tuple[str, str]]) -> None:
        """Place brokers by position; ``edges`` are pairs of linked brokers."""
        self._beside: Final[dict[str, set[str]]] = defaultdict(set)
        for near, far in edges:
            self._beside[near].add(far)
            self._beside[far].add(near)
        across = math.ceil(math.sqrt(len(positions) * SPARE * CELL_Y / CELL_X * ASPECT))
        self._across: Final = min(max(3, across), MOST_ACROSS)
        self._down: Final = max(2, math.ceil(len(positions) * SPARE / self._across))
        self._cells: Final[dict[str, Cell]] = {}
        self._names: Final[dict[Cell, str]] = {}
        (left, right), (top, low) = (_ends([at[axis] for at in positions.values()]) for axis in (0, 1))
        free = {(x, y) for x in range(self._across) for y in range(self._down)}
        for name in sorted(positions, key=lambda one: (abs(positions[one][0]) + abs(positions[one][1]), one)):
            x = (positions[name][0] - left) / (right - left) * (self._across - 1)
            y = (positions[name][1] - top) / (low - top) * (self._down - 1)
            cell = min(free, key=lambda one: ((one[0] - x) ** 2 + (one[1] - y) ** 2, one))
            free.discard(cell)
            self._put(name, cell)

    def shorten(self) -> None:
        """Move brokers towards their neighbours, or exchange two, as long as the lines get shorter."""
        for _ in range(SWEEPS):
            moves = [name for name in sorted(self._beside) if self._improve(name)]
            if not moves:
                return

    def compact(self) -> dict[str, tuple[float, int]]:
        """Return column and row of each broker without empty ones; odd rows are half a column to the right."""
        used = [sorted({cell[axis] for cell in self._cells.values()}) for axis in (0, 1)]
        columns, rows = ({old: new for new, old in enumerate(numbers)} for numbers in used)
        return {name: (columns[x] + rows[y] % 2 / 2, rows[y]) for name, (x, y) in self._cells.items()}

    def _put(self, name: str, cell: Cell) -> None:
        self._cells[name], self._names[cell] = cell, name

    def _improve(self, name: str) -> bool:
        """Move a broker to the best cell in reach, and the previous broker there to the freed cell."""
        here = self._cells[name]
        now = self._length(name, here)
        best, gain = here, LEAST_GAIN
        for cell in self._reach(name):
            shorter = now - self._length(name, cell, here)
            other = self._names.get(cell) if shorter > gain else None
            if other is not None:
                shorter += self._length(other, cell) - self._length(other, here, cell)
            if shorter > gain:
                best, gain = cell, shorter
        if best == here:
            return False
        other = self._names.pop(best, None)
        del self._names[here]
        self._put(name, best)
        if other is not None:
            self._put(other, here)
        return True

    def _reach(self, name: str) -> Iterator[Cell]:
        ends = [self._cells[one] for one in sorted(self._beside[name])]
        x, y = (round(sum(cell[axis] for cell in ends) / len(ends)) for axis in (0, 1))
        for row in range(max(0, y - REACH), min(self._down, y + REACH + 1)):
            for column in range(max(0, x - REACH), min(self._across, x + REACH + 1)):
                yield column, row

    def _length(self, name: str, cell: Cell, freed: Cell | None = None) -> float:
        """Return the length of a broker's lines from a cell.

        A neighbour in the cell would move to the freed cell.
        """
        x, y = _middle(cell)
        total = 0.0
        for other in self._beside[name]:
            end = self._cells[other]
            end_x, end_y = _middle(freed if freed is not None and end == cell else end)
            total += math.hypot(x - end_x, y - end_y)
        return total


def _middle(cell: Cell) -> tuple[float, float]:
    return (cell[0] + cell[1] % 2 / 2) * CELL_X, cell[1] * CELL_Y


def _ends(values: list[float]) -> tuple[float, float]:
    return (min(values), max(values)) if min(values) < max(values) else (min(values), min(values) + 1)
