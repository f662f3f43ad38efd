"""Ways to choose the rate of a move on a full link: its time, and the time that acks=all producers wait meanwhile."""
