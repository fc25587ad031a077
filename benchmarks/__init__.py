"""The benchmark: measures the figures the project promises, on a private stack, beside other delay queues.

figures.py     rows, goals, percentiles; pure
size.py        how much each run does
stack.py       the servers under test: private ones, or ones that run already
processes.py   CPU, memory and disk of processes, as the kernel counts them
bodies.py      the body of every message
client.py      HTTP as cheap as it gets
loops.py       the open and the closed loop of requests, and the sustained flow
deliveries.py  an AMQP consumer as cheap as it gets
amqp.py        what arrives in ready queues, and how deep queues are
bench.py       what a run is given: the stack, the size, the rows
runs/          one file a group of rows
peers/         other delay queues under the same loads, one file each
document.py    all of it as JSON
page.py        docs/benchmarks.md from that JSON; pure
plots.py       its plots; pure
"""
