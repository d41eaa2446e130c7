from django.db import models


class Invoice(models.Model):
    """One invoice; ``settled`` numbers the invoices in the order in which they were printed."""

    account = models.CharField(max_length=50)
    settled = models.IntegerField(null=True)
