"""How far outputs can move when inputs do: boxes, balls, margins over constants, ranks of order statistics."""
