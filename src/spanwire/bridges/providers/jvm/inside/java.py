"""The virtual machine, connection factories, and Java's exceptions as one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jpype

from spanwire.documents.spelling import suggestion

# The heap bounds batches and prefetched messages; signals are for Python, and nothing here has a screen.
# An entry of a directory must not bring serialized Java objects, because reading them runs code of the jars.
OPTIONS: Final = (
    "-Xmx512m",
    "-Xrs",
    "-Djava.awt.headless=true",
    "-XX:+UseSerialGC",
    "-Dcom.sun.jndi.ldap.object.trustSerialData=false",
)
APIS: Final = ("javax.jms", "jakarta.jms")  # JMS 1.1 and 2.0, and 3.0 and later
INTEGERS: Final = {"int": 1 << 31, "long": 1 << 63, "short": 1 << 15, "byte": 1 << 7}
BOXED: Final = {
    "java.lang.Integer": "int",
    "java.lang.Long": "long",
    "java.lang.Short": "short",
    "java.lang.Byte": "byte",
    "java.lang.Boolean": "boolean",
    "java.lang.Float": "float",
    "java.lang.Double": "double",
}
# A missing jar, a class for another Java, or a broken one; and a name service that is not in the jars.
PERMANENT: Final = ("java.lang.LinkageError", "javax.naming.NoInitialContextException")
# Java reports a class that it was loading at that moment as missing from then on, with this as the cause.
EXHAUSTED: Final = ("OutOfMemoryError", "StackOverflowError")
MAX_TEXT: Final = 500  # characters of an exception
MAX_CAUSES: Final = 4  # exceptions inside each other

Java = Any


class JavaError(Exception):
    """A request has failed; the text is one line for an operator."""


class WrongFactoryError(JavaError):
    """The class or a property of a connection factory is wrong, so that each attempt fails in the same way."""


class ExhaustedError(JavaError):
    """Java has run out of memory while it loaded classes; only another virtual machine can load them."""


def start_machine(jars: Sequence[str]) -> None:
    """Start the virtual machine with a class path. Raises `JavaError` without a usable Java runtime."""
    try:
        jpype.startJVM(*OPTIONS, classpath=list(jars), convertStrings=False)
    except (jpype.JVMNotFoundException, jpype.JVMNotSupportedException, OSError, ValueError) as error:
        raise JavaError(
            f"no Java runtime can be started ({one_line(str(error))}); install default-jre-headless, or set JAVA_HOME"
        ) from None


def prepare_thread() -> None:
    """Give this thread the class loader of the jars, which Java's own threads have; IBM MQ's client needs it."""
    loader = jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()
    jpype.JClass("java.lang.Thread").currentThread().setContextClassLoader(loader)


def text_of(error: Java) -> str:
    """Return one line about a Java exception, with the causes."""
    parts: list[str] = []
    current = error
    for _ in range(MAX_CAUSES):
        name = str(current.getClass().getSimpleName())
        message = current.getMessage()
        part = name if message is None else f"{name}: {one_line(str(message))}"
        if not any(part.endswith(known) or known.endswith(part) for known in parts):
            parts.append(part)
        linked = current.getLinkedException() if hasattr(current, "getLinkedException") else None
        current = linked if linked is not None else current.getCause()
        if current is None:
            break
    return "; by ".join(parts)[:MAX_TEXT]


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split())[:MAX_TEXT]


def load_class(name: str) -> Java:
    """Return a class. Raises `WrongFactoryError` for a class missing in all jars, and as `fault_of` says."""
    try:
        return jpype.JClass(name)
    except (TypeError, ValueError, AttributeError) as error:
        raise WrongFactoryError(f"the class {name} cannot be loaded from the jars: {one_line(str(error))}") from None
    except jpype.JException as error:
        raise fault_of(f"the class {name} cannot be loaded", error) from None


def fault_of(what: str, error: Java) -> JavaError:
    """Return the error for a Java exception while a factory is made: `WrongFactoryError` if it would come again."""
    text = f"{what}: {text_of(error)}"
    if any(name in text for name in EXHAUSTED):
        return ExhaustedError(f"{text}; Java is started again")
    is_permanent = any(isinstance(error, jpype.JClass(name)) for name in PERMANENT)
    return WrongFactoryError(text) if is_permanent else JavaError(text)


def make_factory(spec: dict[str, Any]) -> tuple[Java, str]:
    """Return a connection factory and the package of its JMS.

    Raises:
        WrongFactoryError: its class or a property is wrong, or a jar is missing.
        ExhaustedError: Java has to be started again.
        JavaError: the factory is not there.
    """
    try:
        factory = _looked_up(spec) if spec["class_name"] is None else _made(spec)
        for api in APIS:
            try:
                kind = jpype.JClass(f"{api}.ConnectionFactory")
            except TypeError:
                continue
            if isinstance(factory, kind):
                return factory, api
    except jpype.JException as error:
        raise fault_of("no connection factory", error) from None
    shown = "nothing" if factory is None else str(factory.getClass().getName())
    kind_of_error = JavaError if spec["class_name"] is None else WrongFactoryError  # a name may get another object
    raise kind_of_error(f"{shown} is no ConnectionFactory of javax.jms or jakarta.jms")


def _made(spec: dict[str, Any]) -> Java:
    kind = load_class(spec["class_name"])
    try:
        factory = kind()
    except TypeError:
        raise WrongFactoryError(f"the class {spec['class_name']} has no constructor without arguments") from None
    for name, text in spec["properties"]:
        set_property(factory, name, text)
    if hasattr(
        factory, "getRedeliveryPolicy"
    ):  # of ActiveMQ, whose client would move messages to its dead letter queue
        factory.getRedeliveryPolicy().setMaximumRedeliveries(-1)
    return factory


def _looked_up(spec: dict[str, Any]) -> Java:
    environment = jpype.JClass("java.util.Hashtable")()
    for name, text in spec["environment"]:
        environment.put(name, text)
    context = jpype.JClass("javax.naming.InitialContext")(environment)
    try:
        return context.lookup(spec["jndi_name"])
    finally:
        context.close()


def set_property(bean: Java, name: str, text: str) -> None:
    """Set a bean property from its text. Raises `WrongFactoryError` for an unknown property or a wrong value."""
    setters: dict[str, list[str]] = {}
    for method in bean.getClass().getMethods():
        types, method_name = method.getParameterTypes(), str(method.getName())
        if method_name.startswith("set") and len(types) == 1:
            setters.setdefault(method_name[3:], []).append(str(types[0].getName()))
    known = setters.get(name[:1].upper() + name[1:])
    shown = str(bean.getClass().getName())
    if known is None:
        hint = suggestion(name, [s[:1].lower() + s[1:] for s in setters])
        raise WrongFactoryError(f"{shown} has no property {name!r}{hint}")
    for type_name in sorted(known, key=lambda one: one != "java.lang.String"):
        value = _value(BOXED.get(type_name, type_name), text)
        if value is not None:
            try:
                getattr(bean, f"set{name[:1].upper()}{name[1:]}")(value)
            except jpype.JClass("java.lang.IllegalArgumentException") as error:
                raise WrongFactoryError(f"the property {name} of {shown} refuses its value: {text_of(error)}") from None
            return
    raise WrongFactoryError(f"the property {name} of {shown} is of type {known[0]}, and the configured value is not")


def _value(type_name: str, text: str) -> Java | None:
    if type_name == "java.lang.String":
        return jpype.JString(text)
    if type_name == "boolean":
        lower = text.strip().lower()
        return jpype.JBoolean(lower == "true") if lower in ("true", "false") else None
    try:
        if type_name in INTEGERS:
            number = int(text)
            if not -INTEGERS[type_name] <= number < INTEGERS[type_name]:
                return None
            kinds = {"int": jpype.JInt, "long": jpype.JLong, "short": jpype.JShort, "byte": jpype.JByte}
            return kinds[type_name](number)
        if type_name in ("float", "double"):
            return {"float": jpype.JFloat, "double": jpype.JDouble}[type_name](float(text))
    except ValueError:
        return None
    return None
