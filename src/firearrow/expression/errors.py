"""The two ways in which an expression fails: it does not compile, or it cannot be evaluated for a message."""


class BadExpression(ValueError):
    """An expression that does not compile: what is wrong, and where."""


class NoValue(Exception):
    """An expression has no value for a message: a text is not a number, or types cannot be compared.

    A message for which this is raised does not match. Java: any exception of ``Expression.evaluate``.
    """
