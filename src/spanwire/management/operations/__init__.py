"""Operations of operators over the control socket, one module for each kind.

- An *action* sends, consumes or subscribes in the operator's place; an *adjustment* changes limits and settings.
- *Administration* removes objects. A *move* takes messages from queue to queue as a task.
"""
