from django.core.management.base import BaseCommand
from django.utils.module_loading import autodiscover_modules
from kinesin.celery import app


class Command(BaseCommand):
    help = "Runs tasks until SIGTERM, in the place of: celery -A shop worker"

    def add_arguments(self, parser):
        parser.add_argument("--slots", type=int, default=8)

    def handle(self, *, slots, **_):
        autodiscover_modules("tasks")
        app.ensure()
        app.run(slots)
