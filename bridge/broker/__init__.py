"""RabbitMQ as the bridge uses it: connections, publishing with confirms, declared objects, taking from ready queues."""
