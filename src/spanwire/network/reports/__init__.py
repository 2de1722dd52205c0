"""Reports of brokers about their links, which they tell each other for the map of an operator.

- A *report* is what one broker tells of itself: its links with states and counters.
- A *question* why a message does not move goes from broker to broker over the links (`message_questions`).
- A broker is *watched* while somebody looks at its map. It asks the brokers of its own links for their reports, and for
  those they know, and lets them know that they are watched too. So a map has the whole network after a few looks, and
  nobody asks when nobody looks.
"""
