"""Who chooses the rate of a move: what it takes, and what acks=all producers wait meanwhile, on a link that is full."""
