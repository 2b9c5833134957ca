"""The input of ``firearrow produce`` and the output of ``firearrow consume``."""
