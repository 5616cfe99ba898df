"""A certificate that a machine makes for itself, and one that is believed because it was told beforehand."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from pathlib import Path

# Wide enough that no machine's clock is outside: who answers is known by the key alone.
FROM, UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)


def own_certificate(file: Path) -> str:
    """In text. Made where there is none yet, its key beside it in a file that nobody else can read."""
    if not file.exists():
        _make(file)
    found = file.read_text(encoding="ascii")
    return found[found.index("-----BEGIN CERTIFICATE-----") :]


def showing(file: Path) -> ssl.SSLContext:
    """For who listens."""
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    security.minimum_version = ssl.TLSVersion.TLSv1_2
    security.load_cert_chain(file)
    return security


def believing(certificate: str) -> ssl.SSLContext:
    """That one and no other, under whatever name it is reached."""
    security = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    security.minimum_version = ssl.TLSVersion.TLSv1_2
    security.check_hostname = False
    security.load_verify_locations(cadata=certificate)
    return security


def _make(file: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gpunion keeper")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(FROM)
        .not_valid_after(UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    text += certificate.public_bytes(pem)
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.replace(fresh, file)
