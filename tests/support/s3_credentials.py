"""Credentials for the S3 server of tests; the canary is the secret, so no log record may hold it."""

from __future__ import annotations

import os
from typing import Final

from tests.support.canary import CANARY

ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "spanwire-tests",
    "AWS_SECRET_ACCESS_KEY": CANARY,
    "AWS_EC2_METADATA_DISABLED": "true",
}


def set_credentials() -> None:
    """Give this process and its later children the credentials."""
    os.environ.update(ENVIRONMENT)
