from celery import shared_task
from django.db import transaction
from django.db.models import Max

from shop.models import Invoice
from tq_celery import TQTask


@shared_task(base=TQTask, tenant="account", autoretry_for=(OSError,))
def print_invoice(invoice_id, account):
    with transaction.atomic():
        last = Invoice.objects.aggregate(last=Max("settled"))["last"] or 0
        Invoice.objects.filter(pk=invoice_id).update(settled=last + 1)


@shared_task
def clean():
    """Not decorated: a route in the settings schedules it."""
    return Invoice.objects.filter(settled__isnull=False).count()
