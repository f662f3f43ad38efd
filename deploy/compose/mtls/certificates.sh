#!/bin/sh
# An authority (authority/), and key and certificate for every broker and sidecar (tls/key.pem, tls/ca.pem): by the short names
# brokers dial each other and meet a sidecar, by the names on the network sidecars dial each other. Run it again at any time:
# the authority stays, running sidecars take the new certificate within two seconds, brokers when they start.
set -eu
cd "$(dirname "$0")"
umask 077
names=DNS:kafka-101,DNS:kafka-102,DNS:kafka-103,DNS:broker-101,DNS:broker-102,DNS:broker-103
mkdir -p authority tls
chmod 0755 tls
if [ ! -f authority/key.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=kafka-authority \
    -keyout authority/key.pem -out authority/ca.pem 2> /dev/null
fi
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=kafka -keyout authority/fresh.key \
  -out authority/fresh.csr 2> /dev/null
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$names" > authority/fresh.ext
openssl x509 -req -in authority/fresh.csr -CA authority/ca.pem -CAkey authority/key.pem -CAcreateserial -days 90 \
  -extfile authority/fresh.ext -out authority/fresh.crt 2> /dev/null
# Two users read it: the broker's and the sidecar's, in containers. Others on this host are kept out by the folder above.
cat authority/fresh.key authority/fresh.crt > tls/.fresh.pem
cat authority/ca.pem > tls/ca.pem
chmod 0444 tls/.fresh.pem tls/ca.pem
mv -f tls/.fresh.pem tls/key.pem
rm -f authority/fresh.*
