"""Compares what was asked, what was done and what the store says: all of it must agree."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from duly import Duly, Event, Status
from duly.ports import Violation
from duly.records.event import TERMINAL
from duly.records.history import Entry
from duly.values.instants import write_instant
from tests.chaos.faults import STORE, Fault
from tests.chaos.receiver import Post
from tests.chaos.worker import HOOK, PLAIN, SLOW, TRANSACTIONAL
from tests.crash.consistency import Claimed

DELIVERED, INTERRUPTED, GIVEN_BACK, FAILED = "delivered", "interrupted", "given back", "failed"
FORGOTTEN, CANCELLED, STOP_REQUESTED = "forgotten", "cancelled", "stop requested"

EARLY_SECONDS = 0.001
"""Less than this is the machine's clock being adjusted between two readings."""

MOMENT_SECONDS = 1.0
"""From a claim that was committed to the worker's hearing of it, if its connection does not break in between."""

SUDDEN = {"terminate"}
"""Faults that break connections and are over at once: they lose a claim only in the moment in which it is made."""

FORGOTTEN_SECONDS = 10.0
"""After a crash of the store, a worker that lives has told within these what it had in hand."""

FIVE = 5
"""Interruptions after which an event is taken for their cause."""


def is_end(entry: Entry) -> bool:
    """Whether it tells how a claim ended. (A head that has to wait is held as well, and nobody had claimed it.)"""
    ends = (DELIVERED, INTERRUPTED, GIVEN_BACK, FAILED, FORGOTTEN, CANCELLED, "rejected", "held")
    return entry.act in ends and entry.claimed is not None


class Problem(NamedTuple):
    told: str
    event: str | None = None


class Told(NamedTuple):
    """What processes and the receiver have told, each in its own words."""

    asked: Mapping[str, dict[str, Any]]  # by call
    answered: list[dict[str, Any]]
    begun: list[dict[str, Any]]
    done: set[Claimed]
    stalls: list[dict[str, Any]]
    posts: list[Post]
    faults: list[Fault]
    one_writer: bool  # the store has one for all


class Comparison:
    def __init__(
        self,
        events: Mapping[str, Event],
        history: Mapping[str, list[Entry]],
        told: Told,
        lease: timedelta,
        *,
        steady: bool = True,
    ) -> None:
        """*steady*: the store's clock is the machine's, and nobody has moved it."""
        self.events, self.history, self.told, self._lease, self._steady = events, history, told, lease, steady
        self.problems: list[Problem] = []
        self._begun: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in told.begun:
            self._begun[one["event"]].append(one)
        self._late_starts: Counter[str] = Counter()  # by worker

    def wrong(self, told: str, event: str | None = None) -> None:
        self.problems.append(Problem(told, event))

    def ends(self, event: Event) -> dict[int, Entry]:
        """How each claim of it ended."""
        if event.id not in self.history:
            one = Entry(event.executed or event.due, DELIVERED, event.worker, event.version, 1, event.claimed)
            return {event.version: one}
        return {entry.version or 0: entry for entry in self.history[event.id] if is_end(entry)}

    # -- what was asked

    def everything_has_ended(self) -> None:
        for event in self.events.values():
            if event.status not in TERMINAL:
                self.wrong(f"is still {event.status}, ready {event.ready}, held {event.held}", event.id)
            if event.status is Status.FAILED and event.interruptions < FIVE:
                self.wrong(f"is FAILED: {event.last_error}", event.id)

    def accepted_is_there(self) -> None:
        by_call: Counter[tuple[str, Any]] = Counter()
        for event in self.events.values():
            call = event.correlation_id
            if event.series is None and call not in self.told.asked:
                self.wrong(f"was asked for by nobody: {call}", event.id)
            by_call[call or event.id, event.payload] += 1
        for (call, number), times in by_call.items():
            if times > 1:
                self.wrong(f"number {number} of call {call} was asked for once, and is there {times} times")
        for answer in self.told.answered:
            if answer["outcome"] == "surprised":
                self.wrong(f"{answer['verb']} {answer['call']} raised what no caller expects: {answer['error']}")
            if answer["outcome"] == "done":
                for id in answer.get("ids", ()):
                    if id not in self.events:
                        self.wrong(f"{answer['verb']} {answer['call']} was accepted, and event {id} does not exist")

    def what_was_cancelled_or_moved_stayed_so(self) -> None:
        answers = {answer["call"]: answer for answer in self.told.answered}
        last: dict[str, tuple[str, float | None]] = {}  # by event: what became of it last, and when it is due
        unsure: set[str] = set()
        ids_of: dict[str, str] = {}  # by key
        for call, asked in self.told.asked.items():
            answer = answers.get(call)
            id = asked.get("event") or ids_of.get(asked.get("key", ""))
            if answer is None or answer["outcome"] in ("unknown", "surprised"):
                unsure.update(filter(None, (id, *(answer or {}).get("ids", ()))))
            elif answer["outcome"] == "done" and "change" in answer:
                id = answer.get("event") or answer["ids"][0]
                if "key" in asked:
                    ids_of[asked["key"]] = id
                if answer["change"] != "unchanged":
                    last[id] = answer["change"], answer.get("due")
        for id, (change, due) in last.items():
            event = self.events.get(id)
            if event is None or id in unsure:
                continue
            if change == "cancelled":
                if event.status is not Status.CANCELLED:
                    self.wrong(f"was cancelled, and is {event.status}", id)
            elif change == "running":
                if event.status not in (Status.CANCELLED, Status.COMPLETED):
                    self.wrong(f"was asked to stop, and is {event.status}", id)
            elif due is not None and abs(event.due.timestamp() - due) > 1e-5:
                self.wrong(f"was accepted for {datetime.fromtimestamp(due, UTC)}, and is due {event.due}", id)

    def rows_of_callers_came_with_their_events(self, wishes: Iterable[str]) -> None:
        asked = {call for call, asked in self.told.asked.items() if asked.get("own_row")}
        there = {event.correlation_id for event in self.events.values() if event.correlation_id in asked}
        for call in set(wishes) ^ there:
            self.wrong(f"of call {call} there is {'only the event' if call in there else 'only the own row'}")

    # -- what was done

    def each_claim_has_one_end(self) -> None:
        for id, entries in self.history.items():
            versions = Counter(entry.version for entry in entries if is_end(entry))
            for version, times in versions.items():
                if times > 1:
                    self.wrong(f"claim {version} has ended {times} times", id)
            for entry in entries:
                if entry.act == INTERRUPTED:
                    self._explain_interruption(id, entry)
                if entry.act == CANCELLED and entry.claimed and not self._was_asked_to_stop(id, entry):
                    self.wrong(f"was cancelled by {entry.worker} while it ran, and nobody had asked for it", id)
                if entry.act == FORGOTTEN and entry.claimed and not self._crash_after(entry.claimed.timestamp()):
                    self.wrong(f"a claim of {entry.worker} was forgotten, and the store had not crashed", id)

    def _was_asked_to_stop(self, id: str, end: Entry) -> bool:
        return any((one.act, one.version) == (STOP_REQUESTED, end.version) for one in self.history[id])

    def _explain_interruption(self, id: str, entry: Entry) -> None:
        assert entry.claimed is not None
        if not self._steady:
            return
        if entry.at < entry.claimed + self._lease:
            self.wrong(f"was taken from {entry.worker} before its lease had ended", id)
        if not self._explained(entry.worker or "", entry.claimed.timestamp(), entry.at.timestamp()):
            self.wrong(f"was taken from {entry.worker}, to which nothing had happened", id)

    def _explained(self, worker: str, since: float, until: float) -> bool:
        for fault in self.told.faults:
            # On SQLite, a worker may be frozen with the only write lock: then nobody renews a lease.
            felt = fault.victim in (worker, STORE) or (self.told.one_writer and fault.kind == "freeze")
            if not felt or fault.kind == "retire":
                continue
            at_most = min(until, since + MOMENT_SECONDS) if fault.kind in SUDDEN else until
            if fault.overlaps(since - MOMENT_SECONDS, at_most):
                return True
        return self._stalled(worker, since, until)

    def _crash_after(self, claimed: float) -> Fault | None:
        """What is started ahead of time does not wait for the disk: PostgreSQL may forget it, if it crashes in the same
        moment."""
        crashes = (fault for fault in self.told.faults if (fault.kind, fault.victim) == ("crash", STORE))
        return next((crash for crash in crashes if crash.overlaps(claimed, claimed + MOMENT_SECONDS)), None)

    def _nobody_could_tell(self, claimed: float, worker: str | None) -> bool:
        """Whether a claim was forgotten in a crash, and then its worker ended, or one of them did where *worker* is not
        known."""
        crash = self._crash_after(claimed)
        return crash is not None and any(
            fault.kind in ("kill", "retire")
            and worker in (None, fault.victim)
            and fault.overlaps(claimed, crash.ended + FORGOTTEN_SECONDS)
            for fault in self.told.faults
        )

    def _stalled(self, worker: str, since: float, until: float) -> bool:
        return any(
            one["worker"] == worker and one["began"] <= until and since <= one["ended"] for one in self.told.stalls
        )

    # One that was given back may be moved, and may then be of another type: what was begun says of which it was.

    def handlers_did_what_the_history_says(self, rows: Sequence[tuple[str, int, str]]) -> None:
        """*rows*: the effects of transactional handlers, as event, version and worker."""
        effects = {Claimed(event, version): worker for event, version, worker in rows}
        if len(effects) < len(rows):
            self.wrong(f"{len(rows) - len(effects)} effects are there twice")
        twice = Counter(Claimed(one["event"], one["version"]) for one in self.told.begun)
        for claim, times in twice.items():
            if times > 1:
                self.wrong(f"claim {claim.version} was begun {times} times", claim.event)
        for event in self.events.values():
            self._compare(event, self.ends(event), effects)
        for claim in set(effects) - {Claimed(event.id, event.version) for event in self.events.values()}:
            self.wrong(f"the effect of claim {claim.version} is there, and was not the last claim", claim.event)
        self._few_start_late()

    def _compare(self, event: Event, ends: Mapping[int, Entry], effects: Mapping[Claimed, str]) -> None:
        begun = self._begun[event.id]
        for one in begun:
            if self._steady and one["at"] < one["due"] - EARLY_SECONDS:
                self.wrong(f"was begun by {one['worker']} {one['due'] - one['at']:.6f} s before it was due", event.id)
            end = ends.get(one["version"])
            if end is not None:
                self._explain_end(event, one, end)
            elif not self._nobody_could_tell(one["at"], one["worker"]):
                self.wrong(f"claim {one['version']} was begun by {one['worker']}, no history tells its end", event.id)
        for version, end in ends.items():
            if end.act == DELIVERED and event.type != HOOK:
                effect = Claimed(event.id, version)
                wrote = effect in effects if event.type == TRANSACTIONAL else effect in self.told.done
                if not wrote:
                    self.wrong(f"was delivered by {end.worker} as claim {version}, and the effect is missing", event.id)
        if event.status is not Status.COMPLETED and Claimed(event.id, event.version) in effects:
            self.wrong(f"is {event.status}, and its effect is there", event.id)

    def _explain_end(self, event: Event, begun: dict[str, Any], end: Entry) -> None:
        if end.worker != begun["worker"]:
            self.wrong(f"claim {begun['version']} was begun by {begun['worker']} and ended by {end.worker}", event.id)
        if end.act == INTERRUPTED and begun["at"] > end.at.timestamp() and begun["type"] in (PLAIN, SLOW):
            self._late_starts[begun["worker"]] += 1
            self._last_late_start = event.id
        if end.act == FAILED:
            self.wrong(f"an attempt was spent, and its handler has never failed: {end.detail}", event.id)
        if end.act == GIVEN_BACK and begun["type"] != TRANSACTIONAL and not self._was_told_to_stop(end):
            self.wrong(f"was given back by {end.worker}, which did not stop: {end.detail}", event.id)

    def _few_start_late(self) -> None:
        """A worker that was frozen starts nothing after its lease; but one may have been past that check."""
        if not self._steady:
            return
        for worker, times in self._late_starts.items():
            frozen = sum(fault.kind == "freeze" and fault.victim == worker for fault in self.told.faults)
            stalled = sum(one["worker"] == worker for one in self.told.stalls)
            if times > max(frozen, stalled):
                self.wrong(f"{worker} began {times} events after others had taken them", self._last_late_start)

    def posts_are_what_the_history_says(self) -> None:
        posts: dict[tuple[str, str], list[Post]] = defaultdict(list)
        for post in self.told.posts:
            posts[post.id, post.fired_at].append(post)
        for event in self.events.values():
            for version, end in self.ends(event).items():
                assert end.claimed is not None
                # Ahead of time, it is claimed a moment before it is due, and fires when it is.
                fired_at = {write_instant(end.claimed), write_instant(max(end.claimed, event.due))}
                own = [post for instant in fired_at for post in posts.pop((event.id, instant), ())]
                self._compare_posts(event, version, end, own)
        for id, claimed_at in posts:
            if self._nobody_could_tell(datetime.fromisoformat(claimed_at).timestamp(), None):
                continue
            self.wrong(f"was posted by a claim at {claimed_at} of which no history tells", id)

    def _compare_posts(self, event: Event, version: int, end: Entry, posts: list[Post]) -> None:
        if len(posts) > 1:
            self.wrong(f"claim {version} was posted {len(posts)} times", event.id)
        taken = any(post.taken for post in posts)
        if end.act == DELIVERED and event.type == HOOK and not taken:
            self.wrong(f"was delivered as claim {version}, and the receiver has not taken it", event.id)
        if end.act == FAILED and event.type == HOOK and (taken or not posts) and not self._was_cut_off(end):
            self.wrong(f"an attempt was spent, and the receiver has refused nothing: {end.detail}", event.id)
        if end.act == GIVEN_BACK and posts and not self._was_told_to_stop(end):
            self.wrong(f"was posted and given back by {end.worker}: {end.detail}", event.id)

    def _was_told_to_stop(self, end: Entry) -> bool:
        return any(fault.kind == "retire" and fault.victim == end.worker for fault in self.told.faults)

    def _was_cut_off(self, end: Entry) -> bool:
        """From the receiver as well, or frozen until its patience with that was over."""
        assert end.claimed is not None
        since, until = end.claimed.timestamp(), end.at.timestamp()
        return any(
            fault.victim == end.worker and fault.kind in ("cut off", "freeze") and fault.overlaps(since, until)
            for fault in self.told.faults
        ) or self._stalled(end.worker or "", since, until)

    # -- the rows themselves

    def rows_contradict_nothing(self, violations: Iterable[Violation]) -> None:
        for one in dict.fromkeys(violations):
            self.wrong(f"{one.invariant}: {one}", one.id if one.kind == "event" else None)

    # -- schedules

    def every_occurrence_has_one_fact(self, series: Mapping[str, str], step: timedelta) -> None:
        """By schedule, its series. One that fired stands for itself and those before it; one that was left out, for
        itself and those after it."""
        for name, one in series.items():
            own = [event for event in self.events.values() if event.series == one and event.scheduled is not None]
            own = [event for event in own if not (event.occurrence or "").startswith("trigger:")]
            if len(own) < 2:
                self.wrong(f"schedule {name} has planned {len(own)} events")
                continue
            covered: dict[datetime, str] = {}
            for event in own:
                for instant in self._instants(event, step):
                    if instant in covered:
                        self.wrong(f"{name} at {instant} is told of twice, also by {covered[instant]}", event.id)
                    covered[instant] = event.id
            first, last = min(covered), max(covered)
            for number in range((last - first) // step):
                if first + number * step not in covered:
                    self.wrong(f"schedule {name}: nothing tells of {first + number * step}", None)

    def _instants(self, event: Event, step: timedelta) -> Iterator[datetime]:
        assert event.scheduled is not None
        way = step if event.status is Status.SKIPPED else -step
        return (event.scheduled + number * way for number in range(event.stands_for))


async def read(app: Duly) -> tuple[dict[str, Event], dict[str, list[Entry]]]:
    """All events, and the histories of those that were not simply delivered at their first claim."""
    events: dict[str, Event] = {}
    while page := await app.events.find(limit=1000, after=min(events, default=None)):
        events |= {event.id: event for event in page}
    simple = {id for id, one in events.items() if one.status is Status.COMPLETED and one.version == 2}
    return events, {id: await app.events.history(id) for id in events if id not in simple}
