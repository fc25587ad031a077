"""Releases due messages: the one loop between the wheel and the ready queues.

    wheel --due--> delay.checkpoint --held until almost due--> Redis decides  --> ready.<topic>
                                                                  |--> wheel (moved later, paused, asked too early)
    bundles --opened when the earliest copy is due; copies far from due --> wheel, in new bundles
    ready.<topic> --rejected, over the limit, expired--> .........|--> dead.<topic>
                                                                  '--> nowhere: a ghost, or its time to live ended

The checkpoint asks Redis before it releases a copy. It acknowledges a copy only after RabbitMQ has confirmed the copy's
successor. When a process dies in between, RabbitMQ redelivers the copy and the next process decides the same. The
checkpoint keeps no state: a held copy is an unacknowledged delivery.

    lanes.py         runs a checkpoint for each lane
    loop.py          starts a session, and a new one after the channel was lost or a server was away
    session.py       consumes over one channel, holds copies until they are due, acknowledges
    flight.py        the batches in flight
    opened.py        the opened bundles, and which of their copies are due
    parking.py       puts bundled copies that are far from due into new bundles
    moments.py       when the checkpoint asks about an arrival; pure
    due_queue.py     holds copies until they are due, and then until it is their topic's turn; pure
    bundle_refs.py   how many copies of each bundle are unfinished; pure
    batches.py       asks Redis about a batch, publishes, names
    cases.py         one copy of a batch: the answer about it, the decision, and the result
    counting.py      counts the result of each copy in the metrics
    verdicts.py      what to publish and name for each verdict of Redis; pure
"""
