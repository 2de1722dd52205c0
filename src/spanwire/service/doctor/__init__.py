"""Diagnosis of a machine for a configuration, before the first start.

`gathering` asks the machine for `facts`; `diagnosis` judges them without a look at the machine.
"""
