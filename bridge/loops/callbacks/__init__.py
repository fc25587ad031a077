"""Calls receivers over HTTP with the due messages of subscribed topics.

A worker pulls a message under a lease that is a little longer than the call may take. It acknowledges or requeues the
message by the receiver's answer, through the same service as any consumer. So processes share the work through the
queue, without a leader. If a process dies during a call, the lease expires and the message is redelivered.
"""
