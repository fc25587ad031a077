"""Serves the HTTP protocol of lmstfy, its API and its admin port, so that clients written for lmstfy work unchanged.

A queue of a namespace is the topic `namespace/queue`. `tries` is the number of deliveries, which is `max_retry` + 1. A
TTR is the length of a lease. A TTL counts from the publish.

Oddities of lmstfy that are kept: a consume checks the characters of the namespace and of the queues, but not their
lengths. Reading one job shows `remain_tries` 0. An ack is answered 204 for any id. The two calls that return the size
of a queue or of its dead letters need no token. Adding a limit to a token that has one is HTTP 500.

Faults of lmstfy that are fixed here:

* A job becomes ready within milliseconds of its due time, not at the next second.
* A consume is one atomic step. lmstfy takes two steps, and a crash between them loses the job.
* The size of a queue does not count acknowledged or expired jobs.
* An empty answer means that no job was ready.
* A republish publishes the new job before it ends the old one, so a crash in between loses neither.
* Every process refuses a deleted token within a second.
* A failed request gives its unit of the rate limit back to the window that it came from, never to a later one.
"""
