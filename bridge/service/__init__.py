"""The ways through: what a message can go through, one module a way, with the pure decisions beside them."""
