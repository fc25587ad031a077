"""Takes messages out of ready queues and dead-letter queues."""
