"""Who may act: a lease that one supervisor holds at a time, and the claims of restarts (AR-6, AR-5.3)."""
