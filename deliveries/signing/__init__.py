"""Behind sign: recipes compiled into closures."""
