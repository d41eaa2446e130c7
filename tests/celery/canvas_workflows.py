"""Every canvas shape once or more: what a test sends, by name.

A workflow is a function of the application's tasks that sends something and returns its result. The
names say the shape; the numbers are small, so that the expected results can be worked out by hand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from celery import chain, chord, group, signature
from celery.result import GroupResult

__all__ = ["ENDLESS", "WORKFLOWS"]

Workflow = Callable[[Any], Any]

#: Arguments for the functions that no other workflow calls.
SAMPLES: dict[str, tuple[Any, ...]] = {
    "halve": (9,), "modulo": (9,), "power": (3,), "pair": (1, 2), "swapped": ([1, 2],),
    "length": ([1, 2],), "first": ([1, 2],), "last": ([1, 2],), "product": ([2, 3],),
    "flat_too": ([1, [2, [3]]],), "title": ("two words",), "letters": ("four",),
    "keys": ({"b": 1, "a": 2},), "even": (3,), "mean": ([1, 2],), "spread": ([1, 5],),
    "sequence": (3,), "increment": (1, 2), "retried_then_replaced_plain": (1, "task"),
    "auto_plain": (1, 1), "echo": ([None, True, 1.5, "ä"],),
}  # fmt: skip

WORKFLOWS: dict[str, Workflow] = {
    "every function": lambda t: chord(
        [getattr(t, name).s(*args) for name, args in SAMPLES.items()], t.identity.s()
    ).delay(),
    # -- one task --------------------------------------------------------------------------------
    "task": lambda t: t.add.delay(1, 2),
    "ordinary task": lambda t: t.mul.delay(3, 4),
    "task with keywords": lambda t: t.sub.delay(x=9, y=4),
    "task by name": lambda t: signature("add", (1, 1), app=t.add.app).delay(),
    "partial": lambda t: t.sub.s(4).delay(9),
    "partial with keywords": lambda t: t.prefixed.s(prefix="un").delay("done"),
    "immutable": lambda t: t.add.si(1, 2).delay(5),
    "other queue": lambda t: t.add.s(1, 2).set(queue="other").delay(),
    "countdown": lambda t: t.add.s(1, 3).set(countdown=0.05).delay(),
    "ignored result": lambda t: chain(t.silent.s(5), t.truth.s()).delay(),
    # -- chains ----------------------------------------------------------------------------------
    "chain": lambda t: chain(t.add.s(1, 2), t.add.s(3), t.double.s()).delay(),
    "chain through an ordinary task": lambda t: (t.add.s(1, 2) | t.mul.s(3) | t.negate.s()).delay(),
    "chain called": lambda t: chain(t.add.s(1), t.mul.s(2))(5),
    "chain of immutables": lambda t: chain(t.one.si(), t.two.si(), t.three.si()).delay(),
    "chain of one": lambda t: chain(t.add.s(2, 2)).delay(),
    "chain of chains": lambda t: chain(
        chain(t.add.s(1, 1), t.mul.s(2)), chain(t.double.s(), t.square.s())
    ).delay(),
    "chain of text": lambda t: (
        t.upper.s("a b") | t.words.s() | t.joined.s() | t.lower.s()
    ).delay(),
    "chain over queues": lambda t: chain(
        t.add.s(1, 2), t.add.s(1).set(queue="other"), t.mul.s(2).set(queue="other")
    ).delay(),
    "chain to group": lambda t: (
        t.add.s(1, 1) | group(t.add.s(1), t.mul.s(2), t.double.s())
    ).delay(),
    "chain of groups": lambda t: chain(
        group(t.add.s(1, 1), t.mul.s(2, 3)), group(t.total.s(), t.largest.s())
    ).delay(),
    "long chain": lambda t: chain([t.add.s(0, 0)] + [t.add.s(1)] * 12).delay(),
    # -- groups ----------------------------------------------------------------------------------
    "group": lambda t: group(t.add.s(n, n) for n in range(5)).delay(),
    "group of a list": lambda t: group([t.add.s(1, 1), t.mul.s(2, 2), t.double.s(3)]).delay(),
    "group of one": lambda t: group([t.add.s(5, 5)]).delay(),
    "empty group": lambda t: group([]).apply_async(),
    "group with partials": lambda t: group(t.add.s(1), t.mul.s(2)).apply_async((10,)),
    "group of groups": lambda t: group(group(t.one.s(), t.two.s()), t.three.s()).delay(),
    "group of chains": lambda t: group(
        chain(t.add.s(1, 1), t.mul.s(2)), chain(t.mul.s(2, 2), t.double.s())
    ).delay(),
    "group over queues": lambda t: group(t.one.s(), t.two.s().set(queue="other")).delay(),
    "group saved": lambda t: _saved(group(t.add.s(n, 1) for n in range(3)).delay()),
    # -- chords ----------------------------------------------------------------------------------
    "chord": lambda t: chord([t.add.s(n, n) for n in range(6)], t.total.s()).delay(),
    "chord called": lambda t: chord(t.mul.s(n, n) for n in range(4))(t.joined.s()),
    "chord in order": lambda t: chord([t.echo.s(n) for n in range(9)])(t.identity.s()),
    "chord with an ordinary body": lambda t: chord([t.one.s(), t.two.s()])(t.smallest.s()),
    "chord of ordinary members": lambda t: chord([t.mul.s(2, 3), t.square.s(4)])(t.flat.s()),
    "chord all ordinary": lambda t: chord([t.mul.s(2, 3), t.square.s(4)])(t.flat_plain.s()),
    "chord of one": lambda t: chord([t.add.s(1, 1)])(t.total.s()),
    "chord of none": lambda t: chord([])(t.total.s()),
    "chord with an immutable body": lambda t: chord([t.one.s(), t.two.s()])(t.three.si()),
    "chord with partials": lambda t: chord([t.add.s(1), t.mul.s(2)], t.total.s()).apply_async((7,)),
    "chord with a chain as body": lambda t: chord([t.one.s(), t.two.s()])(
        chain(t.total.s(), t.add.s(10), t.mul.s(2))
    ),
    "chord with a group as body": lambda t: chord([t.one.s(), t.two.s()])(
        group(t.total.s(), t.largest.s(), t.smallest.s())
    ),
    "chord with a chord as body": lambda t: chord([t.one.s(), t.two.s()])(
        chord([t.total.s(), t.largest.s()], t.joined.s())
    ),
    "chord then task": lambda t: (chord([t.one.s(), t.two.s()], t.total.s()) | t.add.s(5)).delay(),
    "chord of chords": lambda t: chord(
        [chord([t.one.s(), t.two.s()], t.total.s()), chord([t.mul.s(2, 3)], t.flat_plain.s())],
        t.flat.s(),
    ).delay(),
    "chord of chains": lambda t: chord(
        [chain(t.add.s(n, 1), t.mul.s(2)) for n in range(3)], t.ordered.s()
    ).delay(),
    "chord over queues": lambda t: chord([t.one.s(), t.two.s().set(queue="other")])(
        t.total.s().set(queue="other")
    ),
    "chord of silent members": lambda t: chord([t.silent.s(1), t.silent_plain.s(2)])(t.truth.si()),
    "chord of maps": lambda t: chord([t.double.map([1, 2]), t.square.map([3])])(t.flat.s()),
    "chord of mappings": lambda t: chord([t.entry.s("a", 1), t.entry.s("b", 2)])(
        chain(t.merged.s(), t.picked.s("b"))
    ),
    "chord that grows": lambda t: chord([t.grows.s(1), t.one.s()])(t.three.si()),
    "group then task": lambda t: (group(t.one.s(), t.two.s()) | t.total.s()).delay(),
    "task, group, task": lambda t: (
        t.add.s(1, 1) | group(t.add.s(1), t.mul.s(2)) | t.total.s()
    ).delay(),
    "two chords in a chain": lambda t: chain(
        group(t.one.s(), t.two.s()), t.total.s(), group(t.add.s(1), t.mul.s(2)), t.total.s()
    ).delay(),
    "chain in group in chord": lambda t: chord(
        [group(chain(t.add.s(1, 1), t.mul.s(2)), chain(t.one.s(), t.add.s(4))), t.three.s()],
        t.flat.s(),
    ).delay(),
    # -- loops -----------------------------------------------------------------------------------
    "map": lambda t: t.double.map([1, 2, 3]).delay(),
    "ordinary map": lambda t: t.square.map(range(4)).delay(),
    "starmap": lambda t: t.add.starmap([(1, 2), (3, 4)]).delay(),
    "chunks": lambda t: t.add.chunks(zip(range(7), range(7), strict=True), 3).delay(),
    "chunks then task": lambda t: (
        t.add.chunks(zip(range(7), range(7), strict=True), 3).group() | t.flat.s()
    ).delay(),
    "map in a chain": lambda t: (t.one.s() | t.double.map([4, 5]) | t.flat.s()).delay(),
    # -- links -----------------------------------------------------------------------------------
    "link": lambda t: t.add.apply_async((1, 2), link=t.double.s()),
    "links": lambda t: t.add.apply_async((1, 3), link=[t.double.s(), t.square.s(), t.one.si()]),
    "link to a chain": lambda t: t.add.apply_async((1, 4), link=chain(t.double.s(), t.negate.s())),
    "link to a group": lambda t: t.add.apply_async((1, 5), link=group(t.double.s(), t.square.s())),
    "link to a chord": lambda t: t.add.apply_async(
        (1, 6), link=chord([t.double.s(), t.square.s()], t.flat.s())
    ),
    "link on a chain": lambda t: chain(t.one.s(), t.add.s(20)).apply_async(link=t.double.s()),
    "link on a chord": lambda t: chord([t.one.s(), t.two.s()], t.total.s()).apply_async(
        link=t.add.s(30)
    ),
    # -- failures and errbacks -------------------------------------------------------------------
    "failure": lambda t: t.fail.delay(mark="f1"),
    "errback by id": lambda t: t.fail.apply_async(
        (), {"mark": "f2"}, link_error=t.on_failed.s(mark="b2")
    ),
    "errback by request": lambda t: t.fail.s(mark="f3").on_error(t.on_error.s(mark="b3")).delay(),
    "ordinary errback by request": lambda t: (
        t.fail_plain.s(mark="f0").on_error(t.on_error_plain.s(mark="b0")).delay()
    ),
    "errbacks of both kinds": lambda t: (
        t.fail.s(mark="f4")
        .on_error(t.on_error.s(mark="b4"))
        .on_error(t.on_failed_plain.s(mark="b4"))
    ).delay(),
    "ordinary failure": lambda t: (
        t.fail_plain.s(mark="f5").on_error(t.on_failed.s(mark="b5")).delay()
    ),
    "errback that is a chain": lambda t: (
        t.fail.s(mark="f6").on_error(t.on_failed.s(mark="b6") | t.upper.s()).delay()
    ),
    "failure in a chain": lambda t: chain(t.one.s(), t.fail.s(mark="f7"), t.double.s()).delay(),
    "errback on a chain": lambda t: (
        chain(t.one.s(), t.fail.s(mark="f8"), t.double.s())
        .on_error(t.on_failed.s(mark="b8"))
        .delay()
    ),
    "errback at the call of a chain": lambda t: chain(t.fail.s(mark="f9"), t.one.si()).apply_async(
        link_error=t.on_error.s(mark="b9")
    ),
    "failure in a group": lambda t: group(
        t.one.s(), t.fail.s(mark="f10").on_error(t.on_failed.s(mark="b10"))
    ).delay(),
    "failure in a chord": lambda t: chord([t.one.s(), t.fail.s(mark="f11")])(
        t.total.s().on_error(t.on_error.s(mark="b11"))
    ),
    "failure in an ordinary member": lambda t: chord([t.one.s(), t.fail_plain.s(mark="f12")])(
        t.total.s().on_error(t.on_failed.s(mark="b12"))
    ),
    "failure for an ordinary body": lambda t: chord([t.fail.s(mark="f13")])(
        t.smallest.s().on_error(t.on_failed_plain.s(mark="b13"))
    ),
    "errbacks on member and body": lambda t: chord(
        [t.one.s(), t.fail.s(mark="f14").on_error(t.on_failed.s(mark="m14"))]
    )(t.total.s().on_error(t.on_failed.s(mark="b14"))),
    "failing body": lambda t: chord([t.one.s(), t.two.s()])(
        t.fail.s(mark="f15").on_error(t.on_failed.s(mark="b15"))
    ),
    "failure in a chord in a chain": lambda t: chain(
        t.one.s(), group(t.add.s(1), t.fail.s(mark="f16")), t.total.s(), t.double.s()
    ).delay(),
    "failure in a chain in a chord": lambda t: chord(
        [chain(t.one.s(), t.fail.s(mark="f17"), t.double.s()), t.two.s()], t.total.s()
    ).delay(),
    "failure in a chord in a chord": lambda t: chord(
        [chord([t.fail.s(mark="f18"), t.one.s()], t.total.s()), t.two.s()], t.total.s()
    ).delay(),
    "failure before a group body": lambda t: chord([t.fail.s(mark="f19"), t.one.s()])(
        group(t.total.s(), t.largest.s())
    ),
    # -- retries ---------------------------------------------------------------------------------
    "retry": lambda t: t.again.delay(4, 2),
    "autoretry": lambda t: t.auto.delay(5, 1),
    "retries in a chain": lambda t: chain(
        t.one.s(), t.again.s(2), t.again_plain.s(1), t.double.s()
    ).delay(),
    "retries in a chord": lambda t: chord([t.again.s(1, 2), t.auto.s(2, 1), t.again_plain.s(3, 1)])(
        t.ordered.s()
    ),
    "retries in a body": lambda t: chord([t.one.s(), t.two.s()])(t.again.s(1)),
    "too many retries": lambda t: t.again.s(6, 9).on_error(t.on_failed.s(mark="r6")).delay(),
    "too many retries in a chord": lambda t: chord([t.again.s(7, 9), t.one.s()])(
        t.total.s().on_error(t.on_failed.s(mark="r7"))
    ),
    "too many autoretries": lambda t: t.auto.delay(8, 5),
    # -- sends from inside -----------------------------------------------------------------------
    "sends and ignores a chord": lambda t: t.sends.delay(50, "chord"),
    "sends a chord without a trail": lambda t: t.sends.delay(51, "chord", trail=False),
    "sends a group": lambda t: t.sends.delay(52, "group"),
    "ordinary task sends a chain": lambda t: t.sends_plain.delay(53, "chain"),
    "sends in a chord": lambda t: chord([t.sends.s(54, "chord"), t.one.s()])(t.total.s()),
}


def _saved(result: GroupResult) -> GroupResult:
    result.save()
    restored = GroupResult.restore(result.id, app=result.app)
    assert isinstance(restored, GroupResult)
    return restored


#: Celery ends only the inner of two chords when a member of the inner one fails.
ENDLESS = {"failure in a chord in a chord"}

# -- replacements: each kind, everywhere -----------------------------------------------------------

_KINDS = (
    "task", "plain task", "chain", "group", "chord", "chain to group", "chord of chords", "again",
    "twice task", "twice chord", "fail",
)  # fmt: skip
_PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda t, new: new.delay(),
    "first in a chain": lambda t, new: chain(new, t.flat.s()).delay(),
    "inside a chain": lambda t, new: chain(t.one.s(), new, t.flat_plain.s(), t.double.s()).delay(),
    "in a group": lambda t, new: group(new, t.two.s()).delay(),
    "in a chord": lambda t, new: chord([new, t.two.s()])(t.flat.s()),
    "in a chain in a chord": lambda t, new: chord(
        [chain(t.one.s(), new, t.flat_plain.s()), t.two.s()]
    )(t.flat.s()),
    "as a body": lambda t, new: chord([t.one.s(), t.two.s()])(chain(new, t.flat.s())),
}


def _replacement(place: str, kind: str, number: int) -> Workflow:
    def send(t: Any) -> Any:
        new = t.replaced.si(number, kind=kind)
        new.link_error(t.on_failed.s(mark=f"replaced {number}"))
        new.link(t.nothing.s())
        return _PLACES[place](t, new)

    return send


for _number, (_place, _kind) in enumerate(itertools.product(_PLACES, _KINDS), 1000):
    WORKFLOWS[f"replaced by {_kind}, {_place}"] = _replacement(_place, _kind, _number)


def _retried_then_replaced(kind: str) -> Workflow:
    return lambda t: t.retried_then_replaced.delay(60, kind)


def _ordinary_replaced(kind: str) -> Workflow:
    return lambda t: chord([t.replaced_plain.s(61, kind), t.one.s()])(t.flat.s())


for _kind in ("task", "chain", "group", "chord"):
    WORKFLOWS[f"retried, then replaced by {_kind}"] = _retried_then_replaced(_kind)
    WORKFLOWS[f"ordinary task replaced by {_kind}"] = _ordinary_replaced(_kind)


# -- all nestings to depth three -------------------------------------------------------------------


def _nested(t: Any, kinds: tuple[str, ...], plain: int) -> Any:
    if not kinds:
        return t.three.si() if plain == 0 else t.two.si()
    inner = _nested(t, kinds[1:], (plain + 1) % 2)
    collect = t.flat_plain if plain else t.flat
    if kinds[0] == "chain":
        return chain(t.one.si(), inner, collect.s())
    if kinds[0] == "group":
        return group(inner, t.one.si())
    return chord([inner, t.three.si()], collect.s())


def _nesting(kinds: tuple[str, ...], plain: int) -> Workflow:
    return lambda t: _nested(t, kinds, plain).delay()


for _depth in (2, 3):
    for _shape in itertools.product(("chain", "group", "chord"), repeat=_depth):
        for _plain in (0, 1):
            WORKFLOWS[f"{' of '.join(_shape)} ({_plain})"] = _nesting(_shape, _plain)
