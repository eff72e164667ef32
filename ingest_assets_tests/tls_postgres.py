"""TLS in front of the embedded Postgres, which is built without it: a server that speaks the protocol's handshake.

What does not belong here: the queries, which pass through as they are.
"""

import contextlib
import datetime as dt
import selectors
import socket
import ssl
import struct
import threading
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TLS_REQUEST, GSS_REQUEST = 80877103, 80877104  # codes in place of a protocol version, by Postgres' protocol


def write_certificate(folder: Path, name: str) -> Path:
    """Make a self-signed certificate for a host name; the key lies beside it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path.with_suffix(".key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


class TlsPostgres:
    """Listens on a free port of this machine, and lets nobody in who does not ask for TLS."""

    def __init__(self, certificate: Path, socket_path: str) -> None:
        self.encrypted = 0  # connections whose client found the certificate good and went on
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._socket_path = socket_path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while (code := struct.unpack("!ii", client.recv(8, socket.MSG_WAITALL))[1]) == GSS_REQUEST:
                client.sendall(b"N")
            if code != TLS_REQUEST:
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as encrypted,
                socket.socket(socket.AF_UNIX) as server,
            ):
                startup = encrypted.recv(65536)
                if not startup:
                    return
                self.encrypted += 1
                server.connect(self._socket_path)
                server.sendall(startup)
                _pass(encrypted, server)


def _pass(client: ssl.SSLSocket, server: socket.socket) -> None:
    """Copy both ways until one side ends."""
    with selectors.DefaultSelector() as selector:
        for source, target in ((client, server), (server, client)):
            selector.register(source, selectors.EVENT_READ, target)
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                while isinstance(key.fileobj, ssl.SSLSocket) and key.fileobj.pending():
                    data += key.fileobj.recv(65536)
                if not data:
                    return
                key.data.sendall(data)
