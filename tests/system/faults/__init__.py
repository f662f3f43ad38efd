"""What breaks beside a throttled move: `table` has all of it, the other files what each does.

Each fault is a function of the scene that it breaks in, and returns when what it broke is whole again.
"""
