"""One run of a scenario on its stage (a lab that is up, or one in virtual time): traffic, faults on a timeline,
everything recorded, then judged.

The runner is one loop: what is due (put a fault in, undo one, collect from the agents) is done in the order of time.
However the run ends, also by a signal, an error or an agent that died: the faults that it put in are undone, the
queue pairs taken back, and what was recorded is written and judged. What a killed run left is put right by the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agents.telemetry import DEFAULT_SAMPLE_INTERVAL_NS
from testbed.chaos import check, timeline, verdict
from testbed.chaos.collector import Collector
from testbed.chaos.jobs import Jobs, plans
from testbed.chaos.kernel import on_kernel
from testbed.chaos.port_watch import PortWatch
from testbed.chaos.probing import Probing
from testbed.chaos.scenario import Scenario
from testbed.chaos.stage import Stage
from testbed.chaos.traffic import Traffic
from testbed.chaos.witness import Witness
from testbed.chaos.workload import JobWorkload, Workload
from testbed.lab import lock
from testbed.lab.running import RunningLab
from testbed.measure.judgement import Judgement, Verdict
from testbed.measure.ports import PortSource
from testbed.measure.record import QpFailed, Run, RunEvent
from testbed.measure.recorder import EVENTS_FILE, SAMPLES_FILE, Recorder
from testbed.report import html, recording, summary
from testbed.topology.errors import InputError, MrclabError

SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"

COLLECT_EVERY_NS = 200_000_000
ROUND_TRIPS_EVERY = 5  # collections
LEAD_NS = 300_000_000  # between the last order to an agent and the start of the traffic
DRAIN_NS = 10_000_000_000  # the longest that senders may take to finish what they posted ...
DRAIN_INTERRUPTED_NS = 2_000_000_000  # ... and when somebody waits for the end
DRAIN_POLL_NS = 50_000_000

Live = Callable[[Run, int, list[RunEvent]], None]


@dataclass(frozen=True)
class RunResult:
    """How a run ended: its verdict with the command line's exit code, its summary, the files it wrote by name, and all
    that was recorded."""

    verdict: Verdict
    exit_code: int
    summary: dict[str, Any]
    judgement: Judgement
    paths: dict[str, Path]
    run: Run


def run_scenario(
    scenario: Scenario,
    lab: RunningLab,
    out_dir: Path,
    *,
    seed: int | None = None,
    live: Live | None = None,
    report: bool = True,
) -> RunResult:
    """Run a scenario on a lab that is up, and write summary, samples, events and report to `out_dir`.

    `seed` replaces the scenario's. `live` is called about five times a second with the run so far, the time (ns) and
    the new events. Without `report` there is neither a report nor a recording for one. Raises InputError before
    anything starts when the scenario does not fit the lab, or when the lab is busy. For the main thread, since it takes
    SIGINT, SIGTERM and SIGHUP as the wish to end early.
    """
    check.check(scenario, lab.clos)
    with lock.exclusive(lab.clos.spec.name, f"run {scenario.name}"), on_kernel(lab) as stage:
        return play(scenario, stage, out_dir, seed=seed, live=live, ports=stage.port_counts, report=report)


def play(
    scenario: Scenario,
    stage: Stage,
    out_dir: Path,
    *,
    seed: int | None = None,
    live: Live | None = None,
    ports: PortSource | None = None,
    report: bool = True,
) -> RunResult:
    """Run a scenario that fits its stage, and write the results; arguments as for `run_scenario`.

    `ports` reads what the stage's ports count, where they do.
    """
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the results cannot go to {out_dir}: {error.strerror}", "name another folder") from None
    run = _Runner(scenario, stage, scenario.seed if seed is None else seed, live, ports).record(out_dir)
    return _write(run, verdict.decide(run, scenario.limits), out_dir, report)


class _Runner:
    """The parts of a run while it goes on."""

    def __init__(
        self, scenario: Scenario, stage: Stage, seed: int, live: Live | None, ports: PortSource | None
    ) -> None:
        self._scenario = scenario
        self._stage = stage
        self._clos = stage.clos
        self._seed = seed
        self._live = live
        self._ports = ports
        self._flows = check.flows(scenario, stage.clos, seed)

    def record(self, out_dir: Path) -> Run:
        """Do all of it; the recorded run."""
        stage, injector = self._stage, self._stage.injector
        for kind in {entry.kind for entry in self._scenario.faults}:
            injector.require(kind)
        injector.undo_all(by="run")  # of a run that was killed
        traffic = Traffic(stage.agents, self._clos)
        transport = self._scenario.transport_of(self._clos.spec)
        transported = {"transport": transport.kind, "options": transport.qp_options()}
        traffic.connect([(work, flow) for work, flow in self._flows if isinstance(work, Workload)], transported)
        jobs = self._jobs(transported)
        probing = Probing(self._scenario.health, stage)
        run = self._empty_run()
        with Recorder(run, out_dir) as recorder:
            collector = Collector(stage.agents, recorder, traffic.ends)
            witness = Witness(stage.journal, recorder)
            ports = PortWatch(self._ports, recorder)
            before = stage.machine()
            try:
                collector.begin()
                jobs.watch(collector)
                jobs.prepare()
                probing.begin()
                traffic.start(run.start_ns, run.stop_ns, self._seed)
                self._follow_timeline(run, traffic, jobs, probing, collector, witness, ports)
            except MrclabError as error:
                self._cut_short(run, str(error))
            finally:
                injector.undo_all(by="run")
            after = stage.machine()
            witness.look()
            run.faults = witness.faults_during(run)
            try:
                self._finish(run, traffic, jobs, collector)
                probing.end()
            except MrclabError as error:
                self._cut_short(run, str(error))
            ports.look(stage.now_ns())
            run.machine = collector.machine()
            run.machine.cpu_fraction = after.cpu_fraction_since(before)
            run.machine.softnet_drops = after.drops_since(before)
        run.events.sort(key=lambda event: event.t_ns)
        return run

    def _jobs(self, kind: dict[str, Any]) -> Jobs:
        entries = [
            plans(number, work, self._clos, self._seed, kind)
            for number, work in enumerate(self._scenario.workloads)
            if isinstance(work, JobWorkload)
        ]
        return Jobs(entries, self._stage.agents, self._clos, [flow for _, flow in self._flows])

    def _empty_run(self) -> Run:
        run = Run(
            scenario=self._scenario.name,
            lab=self._clos.spec.name,
            seed=self._seed,
            clos=self._clos,
            flows=[flow for _, flow in self._flows],
            start_ns=self._stage.now_ns(),
            stop_ns=0,
            warmup_ns=self._scenario.warmup,
            speedup=self._stage.speedup,
            virtual=self._stage.virtual,
        )
        # Traffic begins and, after a round duration, ends on the agents' sampling beat: no bin is guessed between a
        # sample with traffic and one without.
        beat_ns = run.of_lab(DEFAULT_SAMPLE_INTERVAL_NS)
        run.start_ns = -(-(run.start_ns + run.of_lab(LEAD_NS)) // beat_ns) * beat_ns
        run.stop_ns = run.start_ns + self._scenario.duration
        return run

    def _follow_timeline(
        self,
        run: Run,
        traffic: Traffic,
        jobs: Jobs,
        probing: Probing,
        collector: Collector,
        witness: Witness,
        ports: PortWatch,
    ) -> None:
        """Until the end of the traffic, or a signal."""
        stage = self._stage
        acts = sorted([(run.start_ns, jobs.release), *probing.acts(run), *self._acts(run)], key=lambda act: act[0])
        every_ns = run.of_lab(COLLECT_EVERY_NS)
        collect_ns = run.start_ns + every_ns
        collections = 0
        while True:
            next_ns = min([collect_ns, run.stop_ns, *(t_ns for t_ns, _ in acts[:1])])
            stage.wait_until(next_ns)
            now_ns = stage.now_ns()
            if wish := stage.wish_to_end():
                self._cut_short(run, f"ended early by {wish}")
                return
            if now_ns >= run.stop_ns:
                return
            while acts and acts[0][0] <= now_ns:
                acts.pop(0)[1]()
            if now_ns >= collect_ns:
                collect_ns += every_ns
                collections += 1
                self._look_at(jobs)
                if jobs.over and not traffic.ends:
                    run.stop_ns = now_ns
                    return
                silent = stage.injector.silent_hosts()
                events = [*witness.look(), *collector.collect(but=silent)]
                ports.look(now_ns)
                if collections % ROUND_TRIPS_EVERY == 0:
                    collector.round_trip(now_ns, but=silent)
                if self._live is not None:
                    self._live(run, now_ns, events)

    def _acts(self, run: Run) -> list[tuple[int, Callable[[], None]]]:
        """What the timeline asks for, and when to begin with it; at the same moment undoing goes first."""
        injector = self._stage.injector
        numbers: dict[int, int] = {}  # of the timeline -> of the journal

        def put(at: int, due: timeline.Due) -> None:
            case, due_ns = due.case, run.start_ns + due.at_ns
            numbers[at] = injector.put(
                due.kind, case.target.text, case.end or None, case.options, by="run", due_ns=due_ns, entry=due.entry
            ).number

        def undo(at: int, due_ns: int) -> None:
            with suppress(InputError):  # undone by hand
                injector.undo(numbers[at], due_ns=due_ns)

        acts: list[tuple[int, int, Callable[[], None]]] = []
        for at, due in enumerate(timeline.unroll(self._scenario, self._clos, self._seed, self._stage.speedup)):
            acts.append((run.start_ns + due.at_ns, 1, partial(put, at, due)))
            if due.until_ns is not None:
                until_ns = run.start_ns + due.until_ns
                acts.append((until_ns, 0, partial(undo, at, until_ns)))
        acts.sort(key=lambda act: act[:2])
        return [(t_ns - self._stage.lead_ns, act) for t_ns, _, act in acts if t_ns < run.stop_ns]

    def _finish(self, run: Run, traffic: Traffic, jobs: Jobs, collector: Collector) -> None:
        """Drain, collect the rest, compare both ends, and take the queue pairs back."""
        stage = self._stage
        if run.interrupted:
            traffic.stop()
        jobs.stop()
        deadline_ns = stage.now_ns() + run.of_lab(DRAIN_INTERRUPTED_NS if run.interrupted else DRAIN_NS)
        while not (self._look_at(jobs) and traffic.drained()) and (now_ns := stage.now_ns()) < deadline_ns:
            stage.wait_until(min(deadline_ns, now_ns + run.of_lab(DRAIN_POLL_NS)))
            if (wish := stage.wish_to_end()) and not run.interrupted:
                self._cut_short(run, f"ended by {wish} while the last messages were under way")
                break
        collector.collect()
        killed = stage.injector.killed_hosts(run.faults)
        jobs.end(lost=killed)
        run.jobs = jobs.results()
        run.totals = traffic.totals(collector.totals, without=killed) | jobs.totals()
        for flow in run.flows:
            for host in {flow.src, flow.dst} & killed.keys():
                why = f"the agent of {host} was killed, with all that it knew of the flow"
                run.events.append(QpFailed(killed[host].since_ns, flow.name, why))
        traffic.disconnect()

    def _look_at(self, jobs: Jobs) -> bool:
        """See to the jobs; whether all are over."""
        injector = self._stage.injector
        jobs.look(self._stage.now_ns(), silent=injector.silent_hosts(), lost=injector.dead_hosts())
        return jobs.over

    def _cut_short(self, run: Run, why: str) -> None:
        """The run ends now, because of this; the first reason counts."""
        run.interrupted = run.interrupted or why
        run.stop_ns = max(run.start_ns, min(self._stage.now_ns(), run.stop_ns))


def _write(run: Run, judgement: Judgement, out_dir: Path, report: bool) -> RunResult:
    names = {
        "summary": SUMMARY_FILE,
        "events": EVENTS_FILE,
        "samples": SAMPLES_FILE,
        "recording": recording.FILE_NAME,
        "report": REPORT_FILE,
    }
    paths = {name: out_dir / file for name, file in names.items()}
    summarised = summary.summarise(run, judgement)
    paths["summary"].write_text(json.dumps(summarised, indent=1) + "\n")
    if report:
        recorded = recording.record(run, judgement)
        paths["recording"].write_text(json.dumps(recorded, separators=(",", ":")) + "\n")
        paths["report"].write_text(html.render(run, judgement, recorded))
    else:
        del paths["recording"], paths["report"]
    return RunResult(judgement.verdict, verdict.EXIT_CODES[judgement.verdict], summarised, judgement, paths, run)
