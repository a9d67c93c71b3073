"""Reads the report of a run out of its folder; needs neither models nor data."""

from __future__ import annotations

import numpy as np

from diffgen.origins import NO_SEED
from diffgen.report.data import ReportData, VerdictData
from diffgen.report.reading.facts import read_facts
from diffgen.report.reading.filters import calibration_sentence, diversity_sentence, read_filters
from diffgen.report.reading.gate import read_gate
from diffgen.report.reading.operators import read_operators
from diffgen.report.reading.pictures import grouped, read_pictures, read_real_pictures
from diffgen.report.reading.selection import read_selection
from diffgen.report.reading.shrunk import read_shrunk
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import RunResults, UnfinishedCheck, read_finished
from diffgen.runs.triggers import TriggerTable


def report_data(folder: RunFolder, triggers: TriggerTable | None = None) -> ReportData:
    """Everything that the report of a finished run shows; arguments as for :func:`read_run`."""
    triggers = folder.read_judged() if triggers is None else triggers
    return read_run(folder, read_finished(folder, triggers), triggers)


def read_run(folder: RunFolder, results: RunResults, triggers: TriggerTable) -> ReportData:
    """Everything that the report of a run shows.

    Args:
        folder: of a run that came to its end.
        results: its figures.
        triggers: what it found, with verdicts.
    """
    facts, arrays = read_facts(folder), folder.read_arrays("report")
    pictures = read_pictures(
        arrays,
        triggers,
        class_names=results.class_names,
        filters=[each.name for each in results.filters],
        drawn_by="your generator" if facts.settings.get("generator", {}).get("file") else "the GAN",
        jury=results.jury,
    )
    return ReportData(
        **vars(facts),
        technique=facts.settings["technique"],
        preset=facts.settings["preset"],
        results=results,
        groups=grouped(pictures.gallery, triggers),
        rejected=pictures.rejected,
        accepted=pictures.accepted,
        real_disagreements=read_real_pictures(arrays),
        samples=arrays["samples"],
        filters=read_filters(results, arrays, triggers),
        calibration=calibration_sentence(results),
        diversity=diversity_sentence(results),
        shrunk=read_shrunk(folder, triggers, len(results.class_names)),
        selection=read_selection(folder, triggers),
        operators=read_operators(folder),
        noun=_noun(results, triggers),
        gate=None if results.check is None else read_gate(folder, results.check, results.faults, results.no_jury),
    )


def _noun(results: RunResults, triggers: TriggerTable) -> str:
    """What a picture of the search is called, by what the triggers were made from."""
    changed = np.zeros(0) if triggers.seeds is None else triggers.seeds != NO_SEED
    if not len(triggers) or triggers.seeds is None:
        return "changed real image" if results.mutated else "generated picture"
    return "changed real image" if changed.all() else "picture" if changed.any() else "generated picture"


def read_verdict(folder: RunFolder, results: UnfinishedCheck) -> VerdictData:
    """Everything that the report of a check shows whose search did not come to its end."""
    return VerdictData(
        **vars(read_facts(folder)),
        problem=results.check["values"]["search"]["problem"],
        class_names=results.class_names,
        triggers=sum(part["rows"] for part in folder.manifest["parts"]),
        preflight=results.preflight,
        real_disagreement_count=results.real_disagreements,
        gate=read_gate(folder, results.check),
    )
