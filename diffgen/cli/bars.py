"""Bars on a terminal, with the figures of a task on a line of their own, so that a narrow terminal cuts none off."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text


class Bars(Progress):
    """rich's bars; a task's field ``figures`` is shown below its bar."""

    @classmethod
    def get_default_columns(cls) -> tuple[TextColumn | BarColumn | TaskProgressColumn | TimeRemainingColumn, ...]:
        return (
            TextColumn("{task.description}", markup=False),  # it may hold the name of a stranger's file
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield self.make_tasks_table([task])
            if task.fields["figures"]:
                yield Text(f"  {task.fields['figures']}", overflow="fold")
