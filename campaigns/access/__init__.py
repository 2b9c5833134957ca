"""Access compared: every request, by five users, at our broker and at Apache's."""
