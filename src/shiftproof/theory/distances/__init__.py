"""How far apart domains are: estimates, and what is proven, from features without labels."""
