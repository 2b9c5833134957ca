"""One owned queue: pulled, handed to handlers, finished, sent back."""
