"""Every Redis key of a namespace: name, type, owner and lifetime.

All keys start with ``tq:{namespace}:``; the braces are a hash tag, so a namespace lives in one
cluster slot and every script may touch all of it. Lua derives the same names in
``lua/includes/keys.lua`` from the prefix that is passed as ``KEYS[1]``; a test compares the two.

============================  ======  ============================================================
key                           type    holds; written by; lifetime
============================  ======  ============================================================
config                        hash    schema, policy, order_within, ageing, generation, caps;
                                      operator; kept
leader                        string  owner of the lease; elect; TTL of the lease
epoch                         string  last epoch granted; elect; kept
fence                         string  highest epoch that has written; leader scripts; kept
leadership                    stream  grants and releases; standbys block on it; elect, resign;
                                      capped
standbys                      zset    scheduler that asked for the lease in vain -> ms until when it
                                      counts as there; elect; until none does
wake                          stream  what the leader blocks on beside ingress; settle, renew;
                                      capped
queues                        set     names of queues that ever took a task; submit; kept
groups                        hash    queue -> group of queues consumed by the same workers;
                                      regroup; kept
payload                       hash    key -> digest, message, place; submit; until settled
ids                           hash    task id -> its newest live key, if that is not its first;
                                      submit, requeue; until that key is settled
ingress                       stream  submitted tasks; submit; until admitted
cursor                        string  last ingress entry admitted; admit; kept
holes                         string  last ingress entry removed out of turn; remove; until
                                      admission is past it, an hour at most
delayed                       zset    tasks not yet due, by due ms; submit, give_back; until
                                      promoted
pending:<n>:<queue>:<tenant>  zset    admitted tasks of a tenant, by rank; admit; until dispatched
outdated:<n>:<q>:<tenant>     zset    tasks of a tenant being re-ranked; rerank; until re-ranked
heads:<queue>                 zset    one head per eligible tenant; admit, dispatch; while
                                      backlogged
gated:<queue>                 set     tenants held back by a cap or a pause; dispatch; while gated
stale:<queue>                 zset    heads of an older generation; switch; until re-ranked
rerank:<queue>                set     gated tenants of an older generation; switch; until re-ranked
virtual                       hash    group -> V of wfq; dispatch; kept
starts:<group>                hash    backlogged tenant -> start tag of wfq; admit, dispatch; while
                                      backlogged
exec:<queue>                  stream  dispatched tasks, group ``workers``; dispatch; until settled
running:<queue>               hash    exec entry -> run record; dispatch; until settled
superseded:<queue>            hash    exec entry -> outcome, its successor is accepted; submit;
                                      until settled
obituary:<queue>              stream  terminal states a worker still has to write; bury, reclaim,
                                      remove, submit; until written
workers                       zset    worker -> lease expiry ms; renew; until withdrawn or reclaimed
announcements                 hash    worker -> JSON of queues, slots, newest epoch; renew; as
                                      ``workers``
live                          hash    tenant -> accepted, not settled; scripts; while not 0
running                       hash    tenant -> dispatched, not settled; scripts; while not 0
weights, caps                 hash    tenant -> weight, max_running; operator; kept
paused_tenants                set     tenants that are paused; operator; kept
paused_queues                 set     queues that are paused; operator; kept
changes                       hash    rule of dispatching -> ms of its last change; operator,
                                      leader; kept
counters                      hash    ``<word>:<queue>`` -> count; scripts; kept
service                       hash    tenant -> service it got and how long it waited, packed;
                                      settle, account; kept for an hour after a tenant's last
                                      task, of at most 5,000 beside those with settings
accounted                     string  ms until which the time of slots is counted; account; kept
done:new, done:old            hash    key -> digest of settled tasks; complete; done memory
done:since                    string  ms when ``done:new`` was started; complete; kept
results                       stream  one entry per settled task; complete, bury; capped
dead                          stream  dead letters; bury; until purged or capped
revoked                       zset    task id -> ms until which it is marked; revoke; until the last
                                      mark has ended, at most 50,000
revoked_stamps                zset    stamped header and value -> ms; revoke; as ``revoked``
draining                      hash    key -> due ms, queue, tenant, record of a task that goes to
                                      the broker; remove; until it is published
produced                      hash    run of ``tq produce`` -> its progress, as JSON; note_run; kept
scan                          hash    queue -> HSCAN cursor of the orphan search; reclaim; kept
starved                       string  set while work waits for credit; dispatch; until credit
============================  ======  ============================================================
"""

from __future__ import annotations

__all__ = ["GROUP", "Keys", "quoted"]

#: Name of the consumer group on exec and obituary streams.
GROUP = "workers"


class Keys:
    """Names of the keys of one namespace; see the module's table.

    ``namespace`` is any non-empty text without braces.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.prefix = f"tq:{{{namespace}}}:"

    def name(self, word: str) -> str:
        """Return the key of a namespace-wide structure, such as ``ingress``."""
        return self.prefix + word

    def of_queue(self, word: str, queue: str) -> str:
        """Return the key of a structure kept per queue (or per group), such as ``exec``."""
        return f"{self.prefix}{word}:{queue}"

    def of_tenant(self, word: str, queue: str, tenant: bytes) -> bytes:
        """Return the key of a tenant's ``pending`` or ``outdated`` set.

        The queue's length keeps queue and tenant apart, whatever bytes they hold.
        """
        raw = queue.encode()
        return self.prefix.encode() + b"%b:%d:%b:%b" % (word.encode(), len(raw), raw, tenant)


def quoted(raw: bytes) -> bytes:
    """Return bytes that a pattern of the server's matches as they are."""
    return b"".join(b"\\" + bytes([c]) if c in b"*?[]^\\" else bytes([c]) for c in raw)
