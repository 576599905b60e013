from django.db import models


class Order(models.Model):
    reference = models.CharField(max_length=40, unique=True)
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.reference
