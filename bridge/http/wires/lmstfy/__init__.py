"""The wire of lmstfy, API and admin: clients written for it find what they know.

A queue of a namespace is the topic `namespace/queue`; tries are `max_retry` + 1 deliveries, a TTR is a lease, a TTL
counts from the publish.

Kept though odd: a consume looks at its names' characters only; reading one job shows `remain_tries` 0; an ack is
answered 204 whatever its id; sizes are told without a token; a limiter that there is already is HTTP 500.

Mended: a job is due within milliseconds, not at the next second; it is handed out in one step, where a crash of the
original between two loses it; what is acked or expired is in no size; an empty answer means that nothing was ready; a
republish loses neither job; a token that was deleted is refused by every process a second later; a window's unit is
given back to that window alone.
"""
