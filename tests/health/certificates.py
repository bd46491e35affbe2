"""Certificates for the tests of TLS: an authority that nobody trusts unless told to, and what it has signed."""

from __future__ import annotations

import datetime as dt
import functools
import ipaddress
import ssl
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@functools.cache
def _authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("idkmesh test authority")
    return key, _signed(name, key, key, name, [x509.BasicConstraints(ca=True, path_length=0)], days=1)


def _signed(  # noqa: PLR0913  what a certificate says
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    by: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    extensions: list[x509.ExtensionType],
    *,
    days: int,
) -> x509.Certificate:
    now = dt.datetime.now(tz=dt.UTC)
    authority = any(isinstance(extension, x509.BasicConstraints) for extension in extensions)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=30))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=authority,
                crl_sign=authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    return builder.sign(by, hashes.SHA256())


def authority_pem() -> bytes:
    return _authority()[1].public_bytes(serialization.Encoding.PEM)


@functools.cache
def certificate(name: str = "127.0.0.1", days: int = 1) -> tuple[bytes, bytes]:
    """Return a certificate for an address or a name, and its key, as PEM. ``days`` below 0 is one that has expired."""
    authority_key, authority = _authority()
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        subject: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    names: list[x509.ExtensionType] = [x509.SubjectAlternativeName([subject])]
    built = _signed(_name("idkmesh test"), key, authority_key, authority.subject, names, days=days)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return built.public_bytes(serialization.Encoding.PEM), pem


def server_context(folder: Path, name: str = "127.0.0.1", days: int = 1) -> ssl.SSLContext:
    file = folder / "server.pem"
    file.write_bytes(b"".join(certificate(name, days)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
