"""Options and lines that the commands of servers share."""
