"""The checkpoint: the one loop between the wheel and the ready queues.

    wheel --due--> delay.checkpoint --held until the moment--> asked of Redis --> ready.<topic>
                                                                  |--> wheel (moved later, paused, asked too early)
    ready.<topic> --rejected, over the limit, expired--> .........|--> dead.<topic>
                                                                  '--> nowhere: a ghost, or its time to live passed

What it guarantees: Redis is asked before a copy is released, and the broker is told that the copy is done with only
after its successor was confirmed. A process that dies in between leaves the copy with the broker, and the next one
decides the same again. It holds nothing that is not in the broker or the store: a held copy is an unacknowledged one.

    verdicts.py   what is to be published and named for each verdict of the store; pure
    incoming.py   what a delivery turns out to be; pure
    holding.py    what waits for its moment, and then for its topic's turn; pure
    shares.py     which bundles are done with; pure
    batches.py    does it with a batch: asks, publishes, names
    loop.py       takes, holds, acknowledges; outlives a broker or store that is away
"""
