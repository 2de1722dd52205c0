"""The provider for MQTT 5, on the library aiomqtt (extra ``mqtt``)."""
