#!/bin/bash
# Get the programs that the tests talk to: real ActiveMQ, Java, Ruby and Perl clients, strace, a C compiler.
#
# Root installs what is missing with apt. Whatever is still missing afterwards is named, one line each; the tests that
# need it are skipped with the same reason, or fail under REQUIRE_PEERS=1.
set -u
cd "$(dirname "$0")/.." || exit 1
python=${1:?usage: tools/peers.sh PYTHON}

# Headers and venv belong to one version of Python; the unversioned packages follow the default python3.
version=$("$python" -c 'import sys; print(f"{sys.version_info.major}.{sys.version_info.minor}")')
bash tools/apt_install.sh activemq libactivemq-java default-jdk-headless gcc libc6-dev python3-dev python3-venv \
    "python$version-dev" "python$version-venv" strace ruby-stomp libnet-stomp-perl libzookeeper-java chromium chromium-driver \
    rabbitmq-server mosquitto nats-server redis-server slapd ldap-utils prometheus systemd || exit 1
"$python" -m tests.support.peers --missing
