"""Diagnosis of a machine for a configuration, before the first start.

`gathering` asks the machine for `facts`; `diagnosis` judges the facts without a look at the machine.
"""
