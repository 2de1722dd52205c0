"""Questions of operators about the way of messages, put to this broker and from broker to broker.

- *Why* explains why a message or an object does not move.
- A *trace* marks messages and collects what each broker *observes* of them.
- A *dry run* asks hop by hop what would become of a message that nobody sends.
"""
