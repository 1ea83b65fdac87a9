"""Serves the KMS of moto on a port: serve.py PORT.

moto hashes every message; this signs digests as AWS KMS does.
"""

import sys

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from moto.kms import utils
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from waitress import serve


def sign(self, message, signing_algorithm):
    utils.validate_signing_algorithm(signing_algorithm, self.valid_signing_algorithms)
    return self.private_key.sign(message, ec.ECDSA(Prehashed(hashes.SHA256())))


utils.ECDSAPrivateKey.sign = sign
serve(DomainDispatcherApplication(create_backend_app), host="127.0.0.1", port=int(sys.argv[1]))
