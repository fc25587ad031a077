#!/bin/sh
# Prints the Debian packages that clients and examples of a language need and this machine lacks, one a line.
#   client-packages.sh [go|java|node|php]...      without a language: those of all
set -eu

program() { command -v "$1" >/dev/null || echo "$2"; }
file() { [ -e "$1" ] || echo "$2"; }

for language in ${*:-go java node php}; do
    case $language in
    go)
        program go golang-go
        file /usr/share/gocode/src/github.com/rabbitmq/amqp091-go golang-github-rabbitmq-amqp091-go-dev
        ;;
    java)
        program javac default-jdk-headless
        file /usr/share/java/amqp-client.jar librabbitmq-client-java
        file /usr/share/java/slf4j-api.jar libslf4j-java
        file /usr/share/java/jackson-databind.jar libjackson2-databind-java
        ;;
    node)
        program node nodejs
        program npm npm
        ;;
    php)
        program php php-cli
        file /usr/share/php/PhpAmqpLib/autoload.php php-amqplib
        ;;
    *)
        echo "client-packages.sh: $language is no language of clients/; they are go, java, node and php" >&2
        exit 2
        ;;
    esac
done
