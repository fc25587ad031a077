#!/bin/sh
# Begins as root, gives the volume to RabbitMQ's user, and writes the cookie. RabbitMQ itself reads RABBITMQ_DEFAULT_USER
# and RABBITMQ_DEFAULT_PASS.
set -eu
if [ "$1" = rabbitmq-server ] && [ "$(id -u)" = 0 ]; then
    chown -R rabbitmq:rabbitmq /var/lib/rabbitmq
    exec setpriv --reuid=rabbitmq --regid=rabbitmq --clear-groups sh "$0" "$@"
fi
cookie=/var/lib/rabbitmq/.erlang.cookie
if [ -n "${RABBITMQ_ERLANG_COOKIE:-}" ] && [ ! -e "$cookie" ]; then
    printf '%s' "$RABBITMQ_ERLANG_COOKIE" > "$cookie"
    chmod 600 "$cookie"
fi
exec "$@"
