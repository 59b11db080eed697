"""Examines the code of every plan, without starting it: what is copied how, and what it takes."""

from dataclasses import replace

import ptx
from compiled import ROW_TILE, Facts, buffers, facts_of, loads_in_flight
from control import compile_computed
from plans import ONE_BUFFER, REGISTERS, one_wave, report, stopped, swept
from shared.splitk import Plan
from shared.splitk_code import compile_plan, of_each

from warplog import profile

CONTROL_STAGES = (3, 4, 5)


def examine(run):
    """Record the facts of all 48 plans, and the instructions of the report's."""
    if run.tiny:
        return
    examined = [*swept(), *one_wave().values(), *stopped(4).values(), *stopped(64).values()]
    known = of_each([*examined, report(4, stop="load"), report(64, stages=1)], facts_of)
    for plan in swept():
        record_facts(run, "study kernel", plan, known[plan])
    record_facts(run, "128 registers", ONE_BUFFER, facts_of(ONE_BUFFER, REGISTERS))
    for masks in (True, False):
        code = compile_plan(report(4, masks=masks))
        counters = ["sass:LDGSTS.E.BYPASS.128", "sass:LDGSTS.E", "sass:LDG.E", "sass:HMMA"]
        run.profile("study kernel", code=code.asm["cubin"], counters=counters, masks=masks)
    examine_stops(run)
    examine_control(run)


# region: control
def examine_control(run):
    """Record the buffers of the same loop where the list is not read, at the stages of the study's."""
    for stages in CONTROL_STAGES:
        plan = replace(ONE_BUFFER, stages=stages)
        code = compile_computed(plan)
        for metric, value, unit in (
            ("buffers", buffers(code.asm["ttgir"], ROW_TILE.format(plan.block)), "buffers"),
            ("wait_depth", ptx.wait_depth(code.asm["ptx"]), "groups"),
            ("shared_bytes", code.metadata.shared, "B"),
        ):
            sizes = {"block": plan.block, "stages": stages, "masks": plan.masks}
            run.count(metric, value, unit=unit, subject="computed rows", **sizes)


# endregion


def examine_stops(run):
    """Record what the code of the stopped plans is, and of the whole one with plain loads."""
    stops = {"load_3_stages": report(64, stop="load"), **stopped(64)}
    for name, plan in {**stops, "output, plain": report(64, stages=1)}.items():
        found = facts_of(plan)
        sizes = {"stop": name.replace(", ", "_"), "stages": plan.stages}
        for metric, value, unit in (
            ("stop_buffers", found.buffers, "buffers"),
            ("stop_shared_bytes", found.shared_bytes, "B"),
            ("stop_registers", found.registers, "registers"),
        ):
            run.count(metric, value, unit=unit, subject="study kernel", **sizes)
        if plan.stages == 1:
            flying = loads_in_flight(profile.sass(compile_plan(plan).asm["cubin"]))
            run.count("loads_in_flight", flying, unit="loads", subject="study kernel", **sizes)


def record_facts(run, kernel: str, plan: Plan, found: Facts):
    """Record what the code of one plan is."""
    sizes = {"block": plan.block, "stages": plan.stages, "masks": plan.masks}
    for metric, unit in {
        "shared_bytes": "B", "fits": "plans", "blocks": "blocks", "registers": "registers",
        "stack_bytes": "B",
        "buffers": "buffers", "list_buffers": "buffers", "wait_depth": "groups",
    }.items():  # fmt: skip
        value = getattr(found, metric)
        run.count(metric, value, unit=unit, subject=kernel, **sizes)
    if kernel != "study kernel":
        return
    for part, subject in {"rows": "key rows", "list": "index list"}.items():
        for metric, unit in {
            "narrowest": "B", "widest": "B", "asynchronous": "instructions",
            "loads": "instructions",
        }.items():  # fmt: skip
            value = getattr(found, f"{part}_{metric}")
            run.count(metric, value, unit=unit, subject=subject, **sizes)
