"""Settings by destination (ActiveMQ's ``destinationPolicy``). Pure.

A *policy entry* holds the settings of the destinations that its pattern matches. The *policy map* finds the entry of a
destination. *Virtual settings* name the destinations that forward their messages.
"""
