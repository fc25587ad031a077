"""Callbacks: due messages of a subscribed topic are called out to its receiver by HTTP.

A message is pulled under a lease a little longer than the call may take, and acked or given back by what the receiver
answers, through the same service as any consumer's. So processes share the work through the queue, with no leader, and
a process that dies in the middle of a call leaves a lease that ends.
"""
