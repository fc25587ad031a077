#!/bin/sh
# Begins as root, gives the volume to Redis' user, and lets other hosts connect without a password.
set -eu
if [ "$1" = redis-server ] && [ "$(id -u)" = 0 ]; then
    chown -R redis:redis .
    exec setpriv --reuid=redis --regid=redis --clear-groups "$@" --protected-mode no
fi
exec "$@"
