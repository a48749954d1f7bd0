"""hypothesis breaks and mends what it likes, as long as one path is whole, and every transfer has to be right."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from testbed.sim.host import SimHost
from testbed.sim.pair import US, Pair

PLANES, T1S = 3, 3
SAFE_PLANE, SAFE_T1 = 2, 2  # never broken

planes = st.integers(0, PLANES - 1)
t1s = st.integers(0, T1S - 1)
soon = st.integers(0, 200 * US)  # within a transfer, or just after it


class Faults(RuleBasedStateMachine):
    """A pair; paths die and live, ports go down and up, hosts stall, and data moves all the while."""

    pair: Pair

    @initialize(seed=st.integers(0, 1 << 32), loss=st.sampled_from([0, 0.002, 0.01]), wrap=st.booleans())
    def connect(self, seed: int, loss: float, wrap: bool) -> None:
        start_psn = (1 << 24) - 10 if wrap else None
        self.pair = Pair(seed=seed, planes=PLANES, t1s=T1S, loss=loss, start_psn=start_psn)

    def host(self, far: bool) -> SimHost:
        return self.pair.b if far else self.pair.a

    @rule(delay=soon, plane=planes, t1=t1s, towards=st.sampled_from(["both", "a", "b"]))
    def kill(self, delay: int, plane: int, t1: int, towards: str) -> None:
        if (plane, t1) != (SAFE_PLANE, SAFE_T1):
            end = getattr(self.pair, towards, None)
            self.pair.after(delay, lambda: self.pair.kill_path(plane, t1, towards=end))

    @rule(delay=soon, plane=planes, t1=t1s)
    def revive(self, delay: int, plane: int, t1: int) -> None:
        self.pair.after(delay, lambda: self.pair.revive_path(plane, t1))

    @rule(delay=soon, plane=st.integers(0, PLANES - 2), far=st.booleans())
    def cut(self, delay: int, plane: int, far: bool) -> None:
        self.pair.after(delay, lambda: self.pair.cut_port(self.host(far), plane))

    @rule(delay=soon, plane=st.integers(0, PLANES - 2), far=st.booleans())
    def mend(self, delay: int, plane: int, far: bool) -> None:
        self.pair.after(delay, lambda: self.pair.mend_port(self.host(far), plane))

    @rule(delay=soon, far=st.booleans(), for_ns=st.integers(1 * US, 100 * US))
    def stall(self, delay: int, far: bool, for_ns: int) -> None:
        self.pair.after(delay, lambda: self.host(far).stall(for_ns))

    @rule(for_ns=st.integers(1 * US, 500 * US))
    def wait(self, for_ns: int) -> None:
        self.pair.wait(for_ns)

    @rule(sizes=st.lists(st.integers(1, 200_000), min_size=1, max_size=3), far=st.booleans())
    def transfer(self, sizes: list[int], far: bool) -> None:
        self.pair.transfer(sizes, sender=self.host(far))

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.pair.transfers({self.pair.a: [100_000], self.pair.b: [100_000]})


TestRandomFaults = Faults.TestCase
TestRandomFaults.settings = settings(
    derandomize=True, print_blob=True, deadline=None, max_examples=100, stateful_step_count=25
)
