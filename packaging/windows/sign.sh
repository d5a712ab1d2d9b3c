#!/bin/sh
# sign.sh FILE signs a Windows program in place with Authenticode. It is what
# SIGN names for packages.sh:
#
#   SIGN="$PWD/packaging/windows/sign.sh" SIGN_CERTIFICATE=c.pem SIGN_KEY=k.pem make packages
#
# SIGN_PASSWORD_FILE has the key's password; SIGN_TIMESTAMP is the address of a
# timestamp server, without which a signature ends with its certificate.
set -eu
signed=$(mktemp)
trap 'rm -f "$signed"' EXIT
rm "$signed"
osslsigncode sign -h sha256 -certs "$SIGN_CERTIFICATE" -key "$SIGN_KEY" ${SIGN_PASSWORD_FILE:+-readpass "$SIGN_PASSWORD_FILE"} \
  -n Reeve -i https://github.com/reevehq/reeve ${SIGN_TIMESTAMP:+-ts "$SIGN_TIMESTAMP"} -in "$1" -out "$signed"
cat "$signed" >"$1" # keeps the file's mode
