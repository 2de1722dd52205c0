"""Makes codecs from plans, and loads the packages of an extra on first use."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.formats.plans import AvroPlan, JsonPlan, Plan, ProtobufPlan
from spanwire.pipeline.formats.rows import Codec

CODECS: Final[dict[type[Plan], str]] = {
    AvroPlan: "spanwire.pipeline.formats.avro.codec:AvroCodec",
    JsonPlan: "spanwire.pipeline.formats.json_codec:JsonCodec",
    ProtobufPlan: "spanwire.pipeline.formats.protobuf_codec:ProtobufCodec",
}
PROTOBUF_FILE_TEXT: Final = "spanwire.pipeline.formats.protobuf_codec:file_text"
PROTOBUF_MESSAGE: Final = "spanwire.pipeline.formats.protobuf_codec:find_message"
EXTRAS: Final = {"google": "protobuf", "jsonschema": "jsonschema", "referencing": "jsonschema"}  # by package
MAX_CODECS: Final = 64  # columns with a schema in one worker; bounds the memory of a worker with many queries


@lru_cache(MAX_CODECS)
def codec_of(plan: Plan) -> Codec:
    """Return the codec of a plan, shared by all batches of this process.

    Raises:
        ConfigurationError: the schema cannot be used, or a package is missing.
    """
    make = cast(Callable[[Plan], Codec], load_format(CODECS[type(plan)]))
    return make(plan)


def load_format(reference: str) -> object:
    """Return the object of a ``"module:attribute"`` string.

    Raises:
        ConfigurationError: a package is missing; the text has the command for its installation.
    """
    try:
        return registry.load(reference)
    except ModuleNotFoundError as error:
        package, _, _ = (error.name or "").partition(".")
        if package not in EXTRAS:
            raise
        command = install_command(EXTRAS[package])
        raise ConfigurationError(f"spanwire: the package {EXTRAS[package]} is not installed; run: {command}") from None
