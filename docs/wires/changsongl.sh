#!/bin/sh
# Shows the life of an order over the wire of changsongl/delay-queue.
set -eu
api=${CHANGSONGL_API:-http://127.0.0.1:8080}
topic=${TOPIC:-unpaid}
jobs=$api/topic/$topic/job

call() { curl -sS "$@" && echo; }

echo "an order that is not paid in 2 seconds is to be closed; its lease is 1 second:"
call "$jobs" -d '{"id": "1001", "delay": 60, "ttr": 60, "body": "{\"order\": 1001}"}'
call "$jobs" -d '{"id": "1001", "delay": 2, "ttr": 1, "body": "{\"order\": 1001}"}'
call "$jobs" -d '{"id": "1001", "delay": 2, "ttr": 1, "body": "{\"order\": 1001}", "override": true}'

echo "wait for it, and let its lease expire:"
call "$jobs?timeout=30"

echo "it is redelivered:"
call "$jobs?timeout=30"

echo "finish it:"
call -X PUT "$jobs/1001"
call -X PUT "$jobs/1001"

echo "another order, which is paid in time:"
call "$jobs" -d '{"id": "1002", "delay": 1, "ttr": 60, "body": "1002"}'
call -X DELETE "$jobs/1002"

echo "it is not delivered:"
call "$jobs?timeout=3"
