"""The sampling engine of smoothing: noise by index, votes, budgets of error, rules for stopping."""
