"""The settings of a broker: their keys, the values in force, changes at run time."""
