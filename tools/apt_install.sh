#!/bin/bash
# Install the named Debian packages that are missing; root only, asks nothing, starts no service.
#
# `apt-get update` runs at most once, and only if something is missing. A package that this release does not have is
# left out without failing: whoever needs it says so. Exit 0 unless apt itself fails.
set -u
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
for package in "$@"; do
    installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    exit 0
fi

echo "installing with apt: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "apt-get update failed; going on with the lists at hand" >&2
available=()
for package in "${missing[@]}"; do
    candidate=$(apt-cache policy "$package" 2>/dev/null | awk '/Candidate:/ {print $2}')
    [ -n "$candidate" ] && [ "$candidate" != "(none)" ] && available+=("$package")
done
[ ${#available[@]} -eq 0 ] && exit 0

# While packages are set up, every request to start a service is answered with "forbidden" (101).
policy=/usr/sbin/policy-rc.d
saved=$(mktemp)
rm "$saved"
[ -e "$policy" ] && cp -p "$policy" "$saved"
restore() {
    rm -f "$policy"
    if [ -e "$saved" ]; then mv "$saved" "$policy"; fi
}
trap restore EXIT
trap 'exit 130' INT TERM
printf '#!/bin/sh\nexit 101\n' > "$policy"
chmod 755 "$policy"
apt-get install -y -qq --no-install-recommends "${available[@]}" >/dev/null
