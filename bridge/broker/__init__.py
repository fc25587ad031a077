"""Uses RabbitMQ: connections, publishing with confirms, declared objects, taking from ready queues."""
