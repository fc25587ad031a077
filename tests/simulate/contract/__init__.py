"""States what the bridge relies on of RabbitMQ. Each test runs against the simulated broker and a real node."""
