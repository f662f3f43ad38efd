"""What an operator types: the commands, and what they ask, plan, edit and tell. Imports `proxy`, never the reverse."""
