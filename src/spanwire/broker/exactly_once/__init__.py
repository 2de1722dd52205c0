"""The control destination: cursors and sinks for programs that move each message exactly once. Pure.

- A *cursor* is a named, durable reader of a queue or durable subscription. The cursor *reserves* messages under
  consecutive *numbers*, until the program acknowledges them or the cursor is released.
- A *range read* shows reserved messages to a browser, any number of times.
- A *sink* stages the parts of a *batch* and commits the batch once. A *part* has the messages of one attempt of one
  partition; its *copies* wait in a *staging destination*.
- Each start of a program is a *run*. A new run begins a new *epoch* of the cursor or sink and ends the epoch before.
"""
