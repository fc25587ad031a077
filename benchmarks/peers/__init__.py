"""Measures other delay queues under the same loads: 200-byte bodies, 64 clients, batches of 100, delays of 1-5 s.

peer.py         the interface of a peer, and the loads for peers with a client in this process
zset.py         a sorted set in Redis and a poller
beanstalkd.py   beanstalkd, over its own protocol
celery.py       Celery's native delayed delivery on quorum queues
bullmq.py       BullMQ
installing.py   installs what the peers need from PyPI, npm and Debian
programs/       loads that run in a peer's own environment and print their result as JSON
"""
