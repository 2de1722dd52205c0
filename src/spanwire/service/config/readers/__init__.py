"""From Spring XML, properties, URIs and options of Java to one tree of elements and its placeholders."""
