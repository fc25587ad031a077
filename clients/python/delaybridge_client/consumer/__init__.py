"""Consumes topics: pulls messages, keeps their leases while they are handled, and acknowledges them."""

from delaybridge_client.consumer.consumer import Consumer, Handler
from delaybridge_client.consumer.delivery import Delivery
from delaybridge_client.consumer.reports import Counts, Late
from delaybridge_client.consumer.sync_consumer import consume
from delaybridge_client.consumer.terms import Terms

__all__ = ["Consumer", "Counts", "Delivery", "Handler", "Late", "Terms", "consume"]
