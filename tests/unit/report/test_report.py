"""summary.json is the contract; report.html is whole by itself, escapes everything and says how it measured."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from testbed.measure.judgement import Judged, Judgement
from testbed.measure.ports import PortCount
from testbed.measure.record import FaultActed, Machine, QpFailed, Run
from testbed.report import figures, html, recording, summary
from tests.unit.measure import handmade
from tests.unit.measure.handmade import LINK, NIC_LINK, PLANE_BPS, ev_change, fault, loss, ns, port_change

MET = Judged("bytes_wrong", "wrong bytes, at most", "count", 0, 0, 4, True)
MISSED = Judged("rerouted_within", "time to reroute, at most", "duration", 100e6, 250e6, 2, False)
NEVER = Judged("evs_restored_within", "time to heal, at most", "duration", 100e6, float("inf"), 1, False)


def eventful() -> Run:
    """A run with two faults, losses, a retired EV that came back, and a plane given up."""
    run = handmade.run(faults=(fault(3, 4), fault(5, 6, NIC_LINK, number=2, by="hand")))
    run.events += [
        FaultActed(ns(3), 1, "link-down", LINK, "near", True, ns(3)),
        loss(3.01),
        ev_change(3.05, "ASSUMED_BAD"),
        FaultActed(ns(4), 1, "link-down", LINK, "near", False, ns(4)),
        ev_change(4.2, "GOOD"),
        port_change(5.002, False),
        port_change(6.002, True),
    ]
    run.machine = Machine(cpu_fraction=0.61234, softnet_drops=1, socket_drops=2, late_timers=3, agents=4)
    return run


def rendered(run: Run, judgement: Judgement) -> str:
    """The report with the run's own replay."""
    return html.render(run, judgement, recording.record(run, judgement))


class Elements(HTMLParser):
    """The tags, their attributes and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


# --- summary


def test_the_summary_has_the_contracts_keys_and_is_json() -> None:
    made = summary.summarise(eventful(), Judgement("fail", ["rerouted_within"], [MET, MISSED, NEVER]))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert next(iter(made)) == "schema_version"
    assert {"scenario", "lab", "seed", "verdict", "expectations", "flows", "faults", "machine", "time_dilation"} <= set(
        made
    )
    assert set(made["flows"][0]) >= {"src", "dst", "bytes_delivered", "bytes_wrong", "goodput_bps", "packets", "planes"}
    assert set(made["flows"][0]["goodput_bps"]) >= {"mean", "min_bin"}
    assert set(made["flows"][0]["packets"]) == {"sent", "retransmitted", "lost", "duplicate"}
    assert set(made["machine"]) >= {"cpu_fraction", "softnet_drops", "socket_drops", "late_timers"}
    assert made["time_dilation"] == 5000


def test_durations_in_the_summary_are_seconds_and_never_is_null() -> None:
    rows = summary.summarise(eventful(), Judgement("fail", [], [MISSED, NEVER]))["expectations"]
    assert [(row["limit"], row["value"], row["ok"], row["unit"]) for row in rows] == [
        (0.1, 0.25, False, "s"),
        (0.1, None, False, "s"),
    ]


def test_the_summarys_faults_are_what_really_happened() -> None:
    first, second = summary.summarise(eventful(), Judgement("pass"))["faults"]
    assert (first["kind"], first["target"], first["by"]) == ("link-down", LINK, "run")
    assert (first["at_s"], first["for_s"], first["packets_lost"]) == (3.0, 1.0, 1)
    assert first["first_loss_s"] == pytest.approx(0.01)
    assert (first["rerouted_s"], first["restored_s"]) == (0.0, pytest.approx(0.2))
    assert (second["by"], second["restored_s"]) == ("hand", pytest.approx(0.002))


def test_goodput_in_the_summary_is_of_the_measured_time() -> None:
    run = handmade.run(rate=lambda flow, plane, t_s: 0 if t_s < 1 else PLANE_BPS)  # nothing during the warm-up
    flow = summary.summarise(run, Judgement("pass"))["flows"][0]
    assert flow["goodput_bps"]["mean"] == pytest.approx(4 * PLANE_BPS, rel=1e-3)
    assert flow["goodput_bps"]["min_bin"] == pytest.approx(4 * PLANE_BPS, rel=1e-3)
    assert [plane["plane"] for plane in flow["planes"]] == [0, 1, 2, 3]


def test_the_summary_has_what_the_ports_counted() -> None:
    run = handmade.run()
    assert summary.summarise(run, Judgement("pass"))["ports"]["counted"] == 0
    run.ports = {"h0>p0t0-0": PortCount(packets=10), "p0t0-0>h0": PortCount(packets=9, trimmed=1)}
    told = summary.summarise(run, Judgement("pass"))["ports"]
    assert (told["counted"], told["total"]["packets"]) == (2, 19)
    assert list(told["notable"]) == ["p0t0-0>h0"]
    assert told["notable"]["p0t0-0>h0"]["trimmed"] == 1


# --- report


def test_the_report_has_a_line_for_each_port_that_trimmed_or_dropped() -> None:
    run = handmade.run()
    assert "ports of this run did not count" in rendered(run, Judgement("pass"))
    run.ports = {"h0>p0t0-0": PortCount(packets=10), "p0t0-0>h0": PortCount(packets=9, trimmed=1, dropped_loss=76)}
    page = rendered(run, Judgement("pass"))
    assert "p0t0-0 → h0" in page
    assert "h0 → p0t0-0" not in page
    assert "19 packets passed on, 0 marked, 1 trimmed, 76 dropped." in page


@pytest.fixture(scope="module")
def page() -> str:
    return rendered(eventful(), Judgement("fail", ["rerouted_within"], [MET, MISSED, NEVER]))


def test_the_report_needs_nothing_from_outside(page: str) -> None:
    elements = Elements(page)
    assert not {"script", "link", "img", "object"} & set(elements.open)
    assert {name for tag, name, _ in elements.attributes if tag == "iframe"} == {"title", "sandbox", "srcdoc"}
    for tag, name, value in elements.attributes:
        if name in ("src", "href", "xlink:href", "data", "action"):
            assert value.startswith(("#", "data:image/")), (tag, name, value)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


def test_the_report_tells_the_verdict_and_each_expectation(page: str) -> None:
    words = " ".join(Elements(page).words.split())
    assert "FAIL" in words
    assert "not met: rerouted_within" in words
    for text in ("bytes_wrong", "250 ms", "never", "missed", "met", LINK, NIC_LINK, "5000", "61.2%"):
        assert text in words, text


def test_figures_are_svg_with_a_band_for_each_plane() -> None:
    run = eventful()
    svg = figures.goodput(run)
    assert ET.fromstring(svg).tag.endswith("svg")
    for label in [f"plane {plane}" for plane in range(4)] + ["capacity oracle", "fault"]:
        assert f">{label}</text>" in svg
    evmap = figures.ev_map(run)
    assert ET.fromstring(evmap).tag.endswith("svg")
    assert "p3 T1-3" in evmap


def test_the_ids_of_the_two_figures_do_not_collide() -> None:
    run = eventful()
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (figures.goodput(run), figures.ev_map(run))]
    referenced = [set(re.findall(r"#([\w-]+)", svg)) for svg in (figures.goodput(run), figures.ev_map(run))]
    shared = ids[0] & ids[1]
    assert not shared & referenced[0] and not shared & referenced[1]


def test_without_matplotlib_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "available", lambda: False)
    made = rendered(eventful(), Judgement("pass"))
    assert "matplotlib is not installed" in made
    assert "<svg" not in made
    assert "plane 3" in made  # the table of the EV map is still there


def test_a_run_that_ended_at_once_still_has_a_report() -> None:
    run = handmade.run()
    run.stop_ns, run.received, run.totals = run.start_ns, {}, {}
    run.interrupted = "ended early by SIGINT"
    made = rendered(run, Judgement("invalid", [run.interrupted]))
    assert "ended early by SIGINT" in made
    assert "before there was anything to draw" in made


def test_everything_is_escaped() -> None:
    run = eventful()
    evil = "<script>alert('x')</script>"
    run.scenario = evil
    run.events.append(QpFailed(ns(4), "h0>h2", evil))
    made = rendered(run, Judgement("invalid", [evil], [Judged("x", evil, "count", 0, 1, 1, False)]))
    assert "<script" not in made
    assert made.count("&lt;script&gt;") >= 4


def test_a_long_list_of_events_is_cut_and_says_so() -> None:
    run = eventful()
    run.events += [QpFailed(ns(4), "h0>h2", "why") for _ in range(html.MAX_EVENTS)]
    assert "more in events.jsonl" in rendered(run, Judgement("pass"))
