"""One run to look at: six instants of it in a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tamis.replays import Replay
from tamis.report.blocks import Block, Picture, Screen, Text
from tamis.report.storyboard import storyboard
from tamis.results.records import Replayed

if TYPE_CHECKING:
    from tamis.results.records import Results


def screen(results: Results) -> list[Block]:
    """Show the run that the study asks to see."""
    return [block for record in results.records("replay", Replayed) or () for block in replay_blocks(record)]


def replay_blocks(record: Replayed) -> list[Block]:
    """Draw six instants of a run, or say why there is nothing to see."""
    given = ", ".join(f"{name} = {value} {unit}".rstrip() for name, value, unit in record.given)
    where = f"{record.series}, at {record.source}: {given}."
    if record.failed:
        return [Text(f"{where} The run has no replay: {record.failed}")]
    replay = Replay.from_bytes(record.seen.tobytes())
    figure = storyboard(replay, record.series, field=record.field or None, through=record.through)
    return [Picture("replay", figure, f"Instants of one run. {where[0].upper()}{where[1:]}")]


SCREEN: Screen[Results] = Screen("replay", "One run", screen)
