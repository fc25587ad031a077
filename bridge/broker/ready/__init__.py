"""Takes messages from ready queues and dead-letter queues."""
