"""The failures of an expression: it does not compile, has no value for a message, or its evaluation takes too long."""


class BadExpression(ValueError):
    """An expression that does not compile: what is wrong, and where."""


class NoValue(Exception):
    """An expression has no value for a message: a text is not a number, or types cannot be compared.

    A message for which this is raised does not match. Java: any exception of ``Expression.evaluate``.
    """


class OutOfBudget(Exception):
    """An evaluation needs more steps than its budget; its message does not match.

    Unlike `NoValue`, no other part of the expression makes up for it.
    """
