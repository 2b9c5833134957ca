"""Our ``mqadmin`` and Apache's 5.5.0 side by side, at our servers and at Apache's; makes the page of commands."""
