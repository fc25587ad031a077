#!/bin/sh
# Shows the life of an order over lmstfy's wire. Start the bridge with BRIDGE_LMSTFY_PORT=7777 and BRIDGE_LMSTFY_ADMIN_PORT=7778.
set -eu
api=${LMSTFY_API:-http://127.0.0.1:7777}
admin=${LMSTFY_ADMIN:-http://127.0.0.1:7778}
account=${LMSTFY_ACCOUNT:-} # user:password if BRIDGE_LMSTFY_ACCOUNTS is set

value() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p"; }

echo "a token for the namespace shop:"
token=$(curl -sS ${account:+-u "$account"} -X POST "$admin/token/shop" -d description=orders | value token)
call() { curl -sS -H "X-Token: $token" "$@" && echo; }

echo "an order that is not paid in 2 seconds is to be closed; it has two tries:"
published=$(call -X PUT "$api/api/shop/unpaid?delay=2&ttl=3600&tries=2" -d '{"order": 1001}')
echo "$published"
job=$(echo "$published" | value job_id)

echo "look it up while it is waiting:"
call "$api/api/shop/unpaid/job/$job"

echo "wait for it with a TTR of 1 second, and let the TTR end:"
call "$api/api/shop/unpaid?timeout=30&ttr=1"

echo "it is redelivered, with no tries left:"
call "$api/api/shop/unpaid?timeout=30&ttr=60"

echo "finish it:"
call -X DELETE "$api/api/shop/unpaid/job/$job" -o /dev/null -w '%{http_code}'

echo "another order, which is paid in time:"
job=$(call -X PUT "$api/api/shop/unpaid?delay=2" -d '{"order": 1002}' | value job_id)
call -X DELETE "$api/api/shop/unpaid/job/$job" -o /dev/null -w '%{http_code}'

echo "it is not delivered:"
call "$api/api/shop/unpaid?timeout=4"
