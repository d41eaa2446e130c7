from django.core.management.base import BaseCommand
from django.db import transaction

from shop.models import Invoice
from shop.tasks import print_invoice


class Command(BaseCommand):
    """One account orders many invoices, and then another one a few."""

    help = "Create invoices and print each when its transaction has committed."

    def add_arguments(self, parser):
        parser.add_argument("--many", type=int, default=200)
        parser.add_argument("--few", type=int, default=5)

    def handle(self, *args, many, few, **options):
        for account, count in (("big", many), ("small", few)):
            for _ in range(count):
                with transaction.atomic():
                    invoice = Invoice.objects.create(account=account)
                    print_invoice.delay_on_commit(invoice.pk, account)
        self.stdout.write(f"{many + few} invoices ordered")
