"""Explores the orders of events of a few messages, breadth first, with the bridge's own code.

Read `state.py` first.

    state.py        what a state of the world is; pure values
    stored.py       runs the bridge's scripts on a real Redis, from any stored state
    processes.py    runs the bridge's code up to its next effect, from the answers that it has had
    operations.py   what a process can do: calls of the API, and the work for a copy
    rules.py        what may happen next in a state
    changes.py      what one event makes of a state; pure
    names.py        the words for events; pure
    promises.py     what must hold in every state
    search.py       visits the states, breadth first
    scenarios.py    which messages, calls and faults are explored together
    planted/        defects that the search has to find
"""
