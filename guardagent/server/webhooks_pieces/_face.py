"""Webhooks: signed messages about approvals, which no restart loses.

webhook_outbox      what is still to be sent, in the state that servers share
webhook_message     the content of a message, and its signature
webhook_delivery    sends it, in a thread for each address
"""

from guardagent.server.webhooks import WebhookDelivery
from guardagent.server.webhooks_pieces.webhook_outbox import WebhookOutbox

__all__ = ["WebhookDelivery", "WebhookOutbox"]
