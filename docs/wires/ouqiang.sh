#!/bin/sh
# Shows the life of an order over the wire of ouqiang/delay-queue.
set -eu
api=${OUQIANG_API:-http://127.0.0.1:8080}
topic=${TOPIC:-unpaid}

call() { curl -sS "$api/$1" -d "$2" && echo; }

echo "an order that is not paid in 2 seconds is to be closed; its lease is 1 second:"
call push "{\"topic\": \"$topic\", \"id\": \"$topic-1001\", \"delay\": 2, \"ttr\": 1, \"body\": \"{\\\"order\\\": 1001}\"}"

echo "look it up while it is waiting:"
call get "{\"id\": \"$topic-1001\"}"

echo "wait for it, and let its lease expire:"
call pop "{\"topic\": \"$topic\"}"

echo "it is redelivered:"
call pop "{\"topic\": \"$topic\"}"

echo "finish it:"
call finish "{\"id\": \"$topic-1001\"}"
call get "{\"id\": \"$topic-1001\"}"

echo "another order, which is paid in time:"
call push "{\"topic\": \"$topic\", \"id\": \"$topic-1002\", \"delay\": 1, \"ttr\": 60, \"body\": \"1002\"}"
call delete "{\"id\": \"$topic-1002\"}"

echo "only the next order is delivered:"
call push "{\"topic\": \"$topic\", \"id\": \"$topic-1003\", \"delay\": 2, \"ttr\": 60, \"body\": \"1003\"}"
call pop "{\"topic\": \"$topic\"}"
call finish "{\"id\": \"$topic-1003\"}"
