#!/bin/sh
# Makes this checkout ready: it installs the lock file into .venv, and the RabbitMQ and Redis programs.
#   setup.sh run      what `make run` needs (no servers when BRIDGE_AMQP_URL and BRIDGE_REDIS_URL are set)
#   setup.sh develop  what tests, checks and benchmarks need
#   setup.sh clients  what the clients and examples of other languages need; by apt alone
#   setup.sh containers  what the tests of the Dockerfile and docker-compose.yml need: by apt, and servers of two releases
# As root on Debian it installs missing packages. Otherwise it prints the command and ends with code 1.
# PYTHON chooses the interpreter. A second run changes nothing and takes a moment.
set -eu
cd "$(dirname "$0")/.."

missing_container_packages() {
    for program in podman runc iptables mmdebstrap; do
        command -v "$program" >/dev/null || echo "$program"
    done
    for program in netavark aardvark-dns; do
        [ -x "/usr/lib/podman/$program" ] || echo "$program"
    done
}

purpose=${1:-develop}
case $purpose in
run) lock=deploy/requirements.lock ;;
develop) lock=tests/requirements.lock ;;
clients)
    packages=$(sh deploy/client-packages.sh | tr '\n' ' ')
    [ -z "$packages" ] || exec sh deploy/install-packages.sh $packages
    exit 0
    ;;
containers)
    packages=$(missing_container_packages | tr '\n' ' ')
    [ -z "$packages" ] || sh deploy/install-packages.sh $packages
    for suite in trixie forky; do
        sh deploy/unpack-servers.sh $suite "${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge/$suite"
    done
    exit 0
    ;;
*) echo "usage: setup.sh run|develop|clients|containers" >&2; exit 2 ;;
esac

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or later is needed and none was found (looked for ${PYTHON:-python3 and python3.11 to 3.14}). Set PYTHON to its path."
}

missing_packages() {
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    if [ "$purpose" = run ] && [ -n "${BRIDGE_AMQP_URL:-}" ] && [ -n "${BRIDGE_REDIS_URL:-}" ]; then
        return
    fi
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || echo rabbitmq-server
    command -v redis-server >/dev/null || echo redis-server
}

# A checksum of all that decides what the environment holds. When it changes, the environment is made again.
fingerprint() {
    { pwd; "$python" -V; cat deploy/pip.lock "$1" pyproject.toml clients/python/pyproject.toml; } | cksum
}

# Programs in .venv/bin hold its path, so a copied or moved .venv is made again.
venv_is_usable() {
    grep -qF "$(pwd)/.venv" .venv/bin/activate 2>/dev/null && .venv/bin/python -c 'import pip' 2>/dev/null
}

is_installed() {
    [ -x .venv/bin/python ] && [ "$(cat ".venv/made-from-$1" 2>/dev/null)" = "$2" ]
}

install_environment() {
    echo "setup: installing Python packages into .venv"
    venv_is_usable || "$python" -m venv --clear .venv
    # Python compiles a module when a program first imports it. Most modules are never imported.
    pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip --quiet install --no-compile"
    # Python 3.11 comes with a pip that compares each file of an index page with 900 tags: it takes twice the CPU.
    $pip --require-hashes --only-binary :all: --requirement deploy/pip.lock
    $pip --require-hashes --only-binary :all: --requirement "$lock"
    $pip --no-deps --no-build-isolation --editable . --editable clients/python
}

python=$(find_python)
packages=$(missing_packages | tr '\n' ' ')
[ -z "$packages" ] || sh deploy/install-packages.sh $packages
# Everything else works without these two, so their absence ends nothing.
if [ "$purpose" = develop ] && ! command -v promtool >/dev/null; then
    sh deploy/install-packages.sh prometheus || echo "setup: without promtool the tests of the alerts are skipped"
fi
if [ "$purpose" = develop ] && ! command -v chromedriver >/dev/null; then
    sh deploy/install-packages.sh chromium chromium-driver \
        || echo "setup: without Chromium the tests of the console are skipped"
fi

fingerprint=$(fingerprint "$lock")
if ! is_installed "$purpose" "$fingerprint"; then
    # The tests' environment holds all that running needs.
    if [ "$purpose" = develop ] || ! is_installed develop "$(fingerprint tests/requirements.lock)"; then
        install_environment
        echo "$fingerprint" > ".venv/made-from-$purpose"
    fi
fi
