"""Receives callbacks over HTTP, and verifies each.

python receive_callbacks.py whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY= 8090
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from delaybridge_client import RefusedCallback, Webhook


def receiver(webhook: Webhook) -> type[BaseHTTPRequestHandler]:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                callback = webhook.verify(body, dict(self.headers))
            except RefusedCallback as error:
                self.send_error(400, str(error))
                return
            # Callbacks are at least once: keep `callback.webhook_id`, and leave out what was done already.
            print(callback.topic, callback.id, callback.json, flush=True)
            self.send_response(204)
            self.end_headers()

    return Receiver


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", int(sys.argv[2])), receiver(Webhook(sys.argv[1]))) as server:
        print("receives on", server.server_port, flush=True)
        server.serve_forever()
