#!/bin/sh
# Unpacks RabbitMQ, Redis and Valkey of a Debian release into a folder, so that tests can use them on this machine.
# It starts nothing. It installs mmdebstrap and bubblewrap alone, where they are missing and this is root.
#   unpack-servers.sh SUITE FOLDER     80 MB to download, 210 MB on disk; an existing folder stays as it is
set -eu
cd "$(dirname "$0")/.."
suite=$1 folder=$2

packages=$(for program in mmdebstrap bwrap; do
    command -v "$program" >/dev/null || echo "$program" | sed 's/bwrap/bubblewrap/'
done)
[ -z "$packages" ] || sh deploy/install-packages.sh $packages
[ ! -d "$folder" ] || exit 0

case $suite in bookworm) valkey= ;; *) valkey=,valkey-server ;; esac
# The mirror that this machine's apt uses.
mirror=$(apt-get indextargets --format '$(SITE)' | grep -v security | head -n 1)
echo "setup: unpacking the servers of Debian $suite into $folder"
mkdir -p "$(dirname "$folder")"
draft=$folder.$$
trap 'rm -rf "$draft"' EXIT
trap 'exit 1' HUP INT TERM
# A testing release expires within days, also on a mirror that is a little behind.
mmdebstrap --quiet --variant=extract --skip=check/qemu \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Check-Valid-Until "false"' \
    --include="rabbitmq-server,redis-server$valkey,base-files,base-passwd,dash,coreutils,sed,grep,gawk,hostname,util-linux,findutils,libc-bin" \
    "$suite" "$draft" "$mirror"
# The sandbox mounts this machine's files over these two.
touch "$draft/etc/hosts" "$draft/etc/passwd"
mv "$draft" "$folder"
