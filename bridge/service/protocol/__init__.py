"""Has the rules that every change of a message follows: which copy comes next, and which copies are ghosts.

Read `succession.py` first.

    steps.py         what a change needs, as data
    succession.py    carries steps out, in the order that makes a crash harmless
    deliveries.py    settles the deliveries with which steps begin
    successors.py    the copies of a message, from the first one to a dead letter; pure
    superseded.py    which copies are ghosts
    arrivals.py      waits until a copy is ready
    kept_bodies.py   which bodies Redis keeps; pure
    receipts.py      the receipts of leases; pure
"""
