"""A certificate authority of the test's own, and what it signs."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""From Python 3.13 on an authority without it is not trusted."""
_IDENTITY = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


class Authority:
    """Writes ca.pem into `folder`; `sign` writes a certificate for 127.0.0.1 beside it."""

    def __init__(self, folder: Path, name: str = "framehold tests") -> None:
        self.folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        folder.mkdir(parents=True, exist_ok=True)
        signed = self._certificate(self._name, self._key, x509.BasicConstraints(True, None), _SIGNS)
        self.path = folder / "ca.pem"
        self.path.write_bytes(signed)

    def sign(self, name: str) -> tuple[Path, Path]:
        """`name`.pem and `name`.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        paths = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        paths[0].write_bytes(self._certificate(subject, key, _IDENTITY))
        form = serialization.PrivateFormat.PKCS8
        paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return paths

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *says: x509.ExtensionType) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(ours, critical=False)
        )
        for extension in says:
            critical = isinstance(extension, (x509.BasicConstraints, x509.KeyUsage))
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
