"""Runs the whole bridge in one process, with virtual time, simulated servers, and faults by a seed: `make simulate`.

`loop`, `clock` and `network` replace what a process has of its machine. `store` has a real Redis behind the network,
`rabbitmq` a simulated RabbitMQ. `load` calls the bridges, `faults` disturbs them, and tests/judging.py judges.
"""
