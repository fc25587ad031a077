"""Measures the figures that the project promises, on private servers, and compares them with other delay queues.

figures.py     rows, goals, percentiles; pure
size.py        the size of each run
stack.py       the servers under test: private ones, or ones that already run
processes.py   CPU, memory and disk use of processes, as the kernel counts them
bodies.py      the body of every message
client.py      an HTTP client with little overhead
loops.py       the open loop, the closed loop and the sustained flow of requests
deliveries.py  an AMQP consumer with little overhead
amqp.py        arrivals in ready queues, and depths of queues
bench.py       the context of a run: the stack, the size, the rows
runs/          one file for each group of rows
peers/         other delay queues under the same loads, one file each
document.py    all results as JSON
page.py        the report, and the figures in docs/benchmarks.md, from that JSON; pure
plots.py       the plots of both; pure
"""
