#!/bin/sh
# An authority (keys/authority/), and key and certificate for every broker and sidecar (keys/tls/): by the short names
# brokers dial each other and meet a sidecar, by the names on the network sidecars dial each other. Run it again at any time:
# the authority stays, running sidecars take the new certificate within two seconds, brokers when they start.
set -eu
cd "$(dirname "$0")"
umask 077
names=DNS:kafka-101,DNS:kafka-102,DNS:kafka-103,DNS:broker-101,DNS:broker-102,DNS:broker-103
mkdir -p keys/authority keys/tls
chmod 0700 keys
chmod 0755 keys/tls
if [ ! -f keys/authority/key.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=kafka-authority \
    -keyout keys/authority/key.pem -out keys/authority/ca.pem 2> /dev/null
fi
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=kafka -keyout keys/authority/fresh.key \
  -out keys/authority/fresh.csr 2> /dev/null
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$names" > keys/authority/fresh.ext
openssl x509 -req -in keys/authority/fresh.csr -CA keys/authority/ca.pem -CAkey keys/authority/key.pem -CAcreateserial -days 90 \
  -extfile keys/authority/fresh.ext -out keys/authority/fresh.crt 2> /dev/null
# Two users read it: the broker's and the sidecar's, in containers. Others on this host do not get past keys/.
cat keys/authority/fresh.key keys/authority/fresh.crt > keys/tls/.fresh.pem
cat keys/authority/ca.pem > keys/tls/.ca.pem
chmod 0444 keys/tls/.fresh.pem keys/tls/.ca.pem
mv -f keys/tls/.fresh.pem keys/tls/key.pem
mv -f keys/tls/.ca.pem keys/tls/ca.pem
rm -f keys/authority/fresh.*
