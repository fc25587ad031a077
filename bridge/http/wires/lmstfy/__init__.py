"""Speaks the wire of lmstfy, API and admin port, so that clients written for lmstfy work unchanged.

A queue of a namespace is the topic `namespace/queue`. `tries` deliveries are `max_retry` + 1. A TTR is a lease. A TTL
counts from the publish.

Oddities kept: a consume checks only the characters of its names. Reading one job shows `remain_tries` 0. An ack is
answered 204 for any id. Sizes need no token. Adding a limit to a token that has one is HTTP 500.

Faults of the original mended here:

* A job is due within milliseconds, not at the next second.
* A consume is one atomic step. The original takes two, and a crash between them loses the job.
* Sizes do not count acknowledged or expired jobs.
* An empty answer means that no job was ready.
* A crash during a republish loses neither job.
* Every process refuses a deleted token within a second.
* A unit of a rate limit goes back to the window that it came from, and to no later one.
"""
