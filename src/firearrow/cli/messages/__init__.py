"""What ``firearrow produce`` reads and ``firearrow consume`` prints."""
