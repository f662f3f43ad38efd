"""The models: at which pace links go on, what would have happened under other quotas, and which rate a plan needs.

`pace` is of the last minutes; `fluid` shares quotas out, in no time. Both are NumPy alone.
"""
