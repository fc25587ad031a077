"""Other delay queues under the same loads: 200-byte bodies, 64 clients, batches of 100, delays of 1 s and of 1-5 s.

peer.py         what a peer is, and one that is spoken to by a client of ours, in this process
zset.py         a sorted set in Redis and a poller
beanstalkd.py   beanstalkd, over its own protocol
celery.py       Celery's native delayed delivery on quorum queues
bullmq.py       BullMQ
installing.py   where what they need comes from: PyPI, npm, Debian
programs/       what runs in a peer's own environment: loads that print their result as JSON
"""
