"""How values are shown to people: charts, which know nothing of what they show."""
