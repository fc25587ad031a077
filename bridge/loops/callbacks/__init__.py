"""Calls receivers over HTTP with the due messages of subscribed topics.

A worker pulls a message under a lease that is a little longer than the call may take. By the receiver's answer, it acks
or nacks the message through the service that all consumers use. So processes share the work through the queue, without
a leader. If a process dies during a call, the lease ends and the message is delivered again.
"""
