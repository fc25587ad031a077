#!/bin/sh
# Shows the life of an order over Youzan's wire.
set -eu
api=${YOUZAN_API:-http://127.0.0.1:8080/youzan}
topic=${TOPIC:-unpaid}

call() { curl -sS "$api" -d "$1" && echo; }

echo "an order that is not paid in 2 seconds is to be closed; its lease is 1 second:"
call "{\"command\": \"add\", \"topic\": \"$topic\", \"id\": \"$topic-1001\", \"delay\": 2, \"TTR\": 1, \"body\": {\"order\": 1001}}"

echo "look it up while it is waiting:"
call "{\"command\": \"state\", \"id\": \"$topic-1001\"}"

echo "wait for it, and let its lease expire:"
call "{\"command\": \"pop\", \"topic\": \"$topic\", \"timeout\": 30}"
call "{\"command\": \"state\", \"id\": \"$topic-1001\"}"

echo "it is redelivered:"
call "{\"command\": \"pop\", \"topic\": \"$topic\", \"timeout\": 30}"

echo "finish it:"
call "{\"command\": \"finish\", \"id\": \"$topic-1001\"}"
call "{\"command\": \"state\", \"id\": \"$topic-1001\"}"

echo "another order, which is paid in time:"
call "{\"command\": \"add\", \"topic\": \"$topic\", \"id\": \"$topic-1002\", \"delay\": 1, \"TTR\": 60, \"body\": \"1002\"}"
call "{\"command\": \"delete\", \"id\": \"$topic-1002\"}"

echo "it is not delivered:"
call "{\"command\": \"pop\", \"topic\": \"$topic\", \"timeout\": 3}"
