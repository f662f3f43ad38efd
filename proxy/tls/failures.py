"""Classifies failed handshakes: one word for the metric and one sentence for the operator.

Pure. Knows OpenSSL's words (`ssl.SSLError.reason`, X509_V_ERR codes). Invariant: every error has a reason; what is not
known here is `other`, with OpenSSL's own words in the log.
"""

from __future__ import annotations

import enum
import ssl


class Reason(enum.StrEnum):
    """The value is the metric's label."""

    PLAINTEXT = "plaintext"
    UNKNOWN_AUTHORITY = "unknown_authority"
    EXPIRED = "expired"
    WRONG_NAME = "wrong_name"
    NO_CERTIFICATE = "no_certificate"
    NOT_ALLOWED = "not_allowed"
    NOTHING_IN_COMMON = "nothing_in_common"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    CROWDED_OUT = "crowded_out"
    OTHER = "other"


ADVICE = {
    Reason.PLAINTEXT: "it speaks no TLS: give it security.protocol=SSL, or this leg PLAINTEXT",
    Reason.UNKNOWN_AUTHORITY: "its certificate is not of an authority in ssl.truststore.location: add that authority",
    Reason.EXPIRED: "its certificate, or one of the authorities it comes from, has expired, or is not valid yet: renew "
    "it, look at both clocks",
    Reason.WRONG_NAME: "its certificate has another name than it was dialled by: add the name to the certificate's "
    "subject alternative names, or say which one it has by server_name",
    Reason.NO_CERTIFICATE: "it presented no certificate: give it ssl.keystore.location, or do not ask for one by "
    "ssl.client.auth",
    Reason.NOT_ALLOWED: "its certificate is good, and none of its names is in allowed_names: add one if it is a broker",
    Reason.NOTHING_IN_COMMON: "no TLS version or cipher suite that both ends allow: compare ssl.enabled.protocols and "
    "ssl.cipher.suites; who dials a sidecar has to have secp256r1 (jdk.tls.namedGroups)",
    Reason.REFUSED: "it does not accept what was presented here: see its log; usually ssl.keystore.location here is of "
    "an authority that its ssl.truststore.location lacks, or without the name it dialled",
    Reason.TIMEOUT: "it did not finish in time",
    Reason.CLOSED: "it closed the connection before the end of the handshake: see its log",
    Reason.CROWDED_OUT: "too many others were under way, and it had not gone on for long",
    Reason.OTHER: "see the error",
}

_NOT_TLS = {
    "WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE", "UNEXPECTED_RECORD", "LENGTH_TOO_SHORT", "RECORD_TOO_SMALL", "BAD_RECORD_TYPE",
    "ENCRYPTED_LENGTH_TOO_LONG", "DATA_LENGTH_TOO_LONG",
}  # fmt: skip
_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The errors of a connection that ends in the middle of a handshake: usually the first, in Python 3.11.2 (Debian 12)
the second."""
_NOTHING_IN_COMMON = {
    "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "TLSV1_ALERT_PROTOCOL_VERSION", "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_SIGNATURE_ALGORITHMS", "NO_SUITABLE_SIGNATURE_ALGORITHM",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY", "NO_SHARED_GROUP", "NO_SUITABLE_KEY_SHARE", "WRONG_SSL_VERSION",
}  # fmt: skip
_VERIFICATIONS = {
    # Any other code is `OTHER`: a purpose that the certificate is not for, for example, or a key that is too short.
    2: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT
    7: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_CERT_SIGNATURE_FAILURE: signed by another authority of the same name
    18: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT
    19: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
    20: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE
    27: Reason.UNKNOWN_AUTHORITY,  # X509_V_ERR_CERT_UNTRUSTED
    9: Reason.EXPIRED,  # X509_V_ERR_CERT_NOT_YET_VALID
    10: Reason.EXPIRED,  # X509_V_ERR_CERT_HAS_EXPIRED
    62: Reason.WRONG_NAME,  # X509_V_ERR_HOSTNAME_MISMATCH
    64: Reason.WRONG_NAME,  # X509_V_ERR_IP_ADDRESS_MISMATCH
}


class HandshakeError(OSError):
    """A handshake did not succeed: the connection has to be closed."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"TLS handshake failed ({reason.value}): {detail}")
        self.reason = reason
        self.detail = detail


def reason_of(error: OSError) -> Reason:
    """Return the reason for which a handshake, or the first read after it, raised."""
    if isinstance(error, HandshakeError):
        return error.reason
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFICATIONS.get(error.verify_code, Reason.OTHER)
    if isinstance(error, _ENDS) or not isinstance(error, ssl.SSLError):
        return Reason.CLOSED
    said = error.reason or ""
    if said in _NOT_TLS:
        return Reason.PLAINTEXT
    if said in _NOTHING_IN_COMMON:
        return Reason.NOTHING_IN_COMMON
    if said == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return Reason.NO_CERTIFICATE
    if said == "UNEXPECTED_EOF_WHILE_READING":
        return Reason.CLOSED
    return Reason.REFUSED if "_ALERT_" in said else Reason.OTHER


def words_of(error: OSError) -> str:
    """Return OpenSSL's message without its place in Python's source."""
    if isinstance(error, HandshakeError):
        return error.detail
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return error.strerror or str(error) or type(error).__name__
