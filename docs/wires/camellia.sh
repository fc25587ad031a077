#!/bin/sh
# Shows the life of an order over the wire of camellia-delay-queue.
set -eu
api=${CAMELLIA_API:-http://127.0.0.1:8080}/camellia/delayQueue
topic=${TOPIC:-unpaid}

call() {
  name=$1
  shift
  curl -sS "$api/$name" -d "topic=$topic" "$@" && echo
}

echo "an order that is not paid in 2 seconds is to be closed:"
call sendMsg -d msgId=1001 -d delayMillis=2000 --data-urlencode 'msg={"order": 1001}'

echo "look it up:"
call getMsg -d msgId=1001

echo "wait for it with a lease of 1 second, and let the lease expire:"
call longPollingMsg -d ackTimeoutMillis=1000 -d longPollingTimeoutMillis=30000

echo "it is redelivered; requeue it at once:"
call longPollingMsg -d ackTimeoutMillis=60000 -d longPollingTimeoutMillis=30000
call ackMsg -d msgId=1001 -d ack=false

echo "it is redelivered again; acknowledge it:"
call longPollingMsg -d ackTimeoutMillis=60000 -d longPollingTimeoutMillis=30000
call ackMsg -d msgId=1001 -d ack=true
call getMsg -d msgId=1001

echo "another order, which is paid in time:"
call sendMsg -d msgId=1002 -d delayMillis=1000 -d msg=1002
call deleteMsg -d msgId=1002

echo "it is not delivered:"
call longPollingMsg -d longPollingTimeoutMillis=3000
