"""What is known of messages: records, envelopes and indexes in Redis."""
