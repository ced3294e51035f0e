#!/bin/sh
# The certificate and key by which the notebook and its GPU's process know each other: sh keys.sh NAMESPACE NAME
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=$2" \
  -keyout "$folder/tls.key" -out "$folder/tls.crt"
kubectl create secret tls "$2" --namespace "$1" --cert "$folder/tls.crt" --key "$folder/tls.key"
