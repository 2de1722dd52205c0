"""Connection factories of JMS providers in Java in a file of bridges.

    [connectionFactories.mq]
    provider = "jvm"
    factoryClass = "com.ibm.mq.jms.MQConnectionFactory"
    jars = ["com.ibm.mq.allclient.jar", "javax.jms-api.jar", "org.json.jar"]     all of --jars without it
    [connectionFactories.mq.properties]
    hostName = "mq.example.com"
    port = 1414

With ``jndiName`` and a table ``jndi`` in place of ``factoryClass`` Java looks up the factory.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.files.jndi_parameters import JNDI, JNDI_NAME, located
from spanwire.bridges.jndi.environment import INITIAL, check_name, refuse_loading
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.model.secret import Secret
from spanwire.routes.readers.nodes import Items, Mapping, Node, Word, mapping_of, text_of

JVM: Final = "jvm"  # the provider
CLASS: Final = "factoryClass"
PROPERTIES: Final = "properties"
JAR_LIST: Final = "jars"
MAX_NAME: Final = 120  # characters of a name in an error
WORDS: Final = (CLASS, PROPERTIES, JAR_LIST)


def java_factory_of(words: Mapping, name: str) -> tuple[str, JavaFactory]:
    """Return the factory of a table with ``provider = "jvm"``, and what people read in place of a URL.

    Raises:
        ConfigurationError: a word is missing, or does not fit another one.
    """
    if words.text("url") is not None:
        raise words.entries["url"].location.error("the provider jvm has no url; write it as a property of the factory")
    class_name, environment = words.text(CLASS), _texts(words, JNDI)
    if class_name is None:
        if JNDI not in words.entries:
            raise words.location.error(f"the connection factory {name} needs {CLASS}, or {JNDI_NAME} and {JNDI}")
        looked_up = words.require(JNDI_NAME, f"the connection factory {name}")
        location = words.entries[JNDI_NAME].location
        values = {key: value.reveal() for key, value in environment}
        located(words.entries[JNDI].location, lambda: refuse_loading(values))
        if not values.get(INITIAL, "").strip():
            raise words.entries[JNDI].location.error(f"the JNDI environment has no {INITIAL}")
        jndi_name = located(location, lambda: check_name(looked_up))
        return f"jvm:{jndi_name}", JavaFactory(None, (), jndi_name, environment, _jars(words))
    if JNDI in words.entries:
        raise words.entries[JNDI].location.error(f"{CLASS} and {JNDI} exclude each other; remove one of them")
    return f"jvm:{class_name}", JavaFactory(class_name, _texts(words, PROPERTIES), jars=_jars(words))


def _texts(words: Mapping, name: str) -> tuple[tuple[str, Secret], ...]:
    node = words.node(name)
    if node is None:
        return ()
    table = mapping_of(node, name)
    return tuple((key, Secret(text_of(entry.value, key))) for key, entry in table.entries.items())


def _jars(words: Mapping) -> tuple[str, ...]:
    node = words.node(JAR_LIST)
    if node is None:
        return ()
    if isinstance(node, Word):
        return (_jar_of(node),)
    if not isinstance(node, Items) or not node.items:
        raise node.location.error(f"{JAR_LIST} must be a list of file names")
    return tuple(_jar_of(item) for item in node.items)


def _jar_of(node: Node) -> str:
    name = text_of(node, JAR_LIST)
    if "/" in name:
        raise node.location.error(
            f"{name[:MAX_NAME]!r} is no file name of the directory of --jars; write the name alone"
        )
    return name
