"""Reports of brokers about their links, exchanged for the map of an operator.

- A *report* is one broker's account of its own links, with states and counters.
- A *question* why a message does not move goes from broker to broker over the links (`message_questions`).
- A broker is *watched* while an operator looks at its map. A watched broker asks the brokers of its own links for their
  reports and for known reports of others, and marks the asked brokers as watched too. So a map has the whole network
  after a few looks, and without operators there are no questions.
"""
