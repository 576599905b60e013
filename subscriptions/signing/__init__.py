"""How requests are signed: recipes, the ready-made ones by name, and the profiles that operators make."""
