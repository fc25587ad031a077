"""The benchmark: measures the figures the project promises, on a private stack, beside a peer.

figures.py   rows, goals, percentiles; pure
size.py      how much each run does
stack.py     the servers under test: private ones, or ones that run already
client.py    HTTP as cheap as it gets, and the open and closed loops of requests
amqp.py      what arrives in ready queues, and how deep queues are
peers.py     a Redis sorted set and a poller, which many use in place of this
bench.py     what a run is given: the stack, the size, the rows
runs/        one file a group of rows
report.py    the rows as a table, as JSON, as a page
"""
