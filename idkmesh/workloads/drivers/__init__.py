"""How instances are listed, asked and restarted, by platform (AR-8). One contract suite runs over all of them."""
