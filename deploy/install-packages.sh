#!/bin/sh
# Installs Debian packages as root without starting or enabling any service of theirs:
# this project runs RabbitMQ, Redis and Prometheus as programs, with its own ports and data.
#   install-packages.sh PACKAGE...
set -eu

policy=/usr/sbin/policy-rc.d
saved_policy=$policy.before-delaybridge
service_users="rabbitmq redis epmd prometheus"

if ! command -v apt-get >/dev/null; then
    echo "setup: missing: $*. Install RabbitMQ 3.10 or later, Redis 7 or later and Python's venv module." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "setup: missing: $*. Run this, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install --no-install-recommends $*" >&2
    exit 1
fi

# Process ids of the services' users. No server of this project runs as one of them.
service_pids() {
    for process in /proc/[0-9]*; do
        owner=$(stat -c %U "$process" 2>/dev/null) || continue
        case " $service_users " in *" $owner "*) echo "${process#/proc/}" ;; esac
    done
}

restore_policy() {
    rm -f "$policy"
    [ ! -e "$saved_policy" ] || mv "$saved_policy" "$policy"
}

forbid_service_starts() {
    # A killed run leaves a saved policy. Then the policy in place is ours.
    if [ -e "$policy" ] && [ ! -e "$saved_policy" ]; then
        mv "$policy" "$saved_policy"
    fi
    trap restore_policy EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
}

# Keeps new services down at the next boot too. A service that was installed before keeps its setting.
disable_services() {
    for package in "$@"; do
        case $package in
        rabbitmq-server) units="rabbitmq-server.service epmd.service epmd.socket" ;;
        redis-server) units=redis-server.service ;;
        prometheus) units=prometheus.service ;;
        podman) units="podman.service podman.socket podman-restart.service podman-auto-update.service podman-auto-update.timer" ;;
        *) continue ;;
        esac
        for unit in $units; do
            # deb-systemd-helper works only when it believes that a package's script calls it.
            DPKG_MAINTSCRIPT_PACKAGE=$package deb-systemd-helper disable "$unit" >/dev/null 2>&1 || true
        done
    done
}

end_new_services() {
    for pid in $(service_pids); do
        case " $1 " in
        *" $pid "*) ;;
        *) kill "$pid" 2>/dev/null || true ;;
        esac
    done
}

echo "setup: installing $* with apt-get"
running_before=$(service_pids | tr '\n' ' ')
forbid_service_starts
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o DPkg::Lock::Timeout=300 update
apt-get -qq -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "$@" >/dev/null
disable_services "$@"
end_new_services "$running_before"
