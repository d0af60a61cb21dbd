from kinesin.celery import shared_task  # before: from celery import shared_task

from .models import Order


@shared_task(max_retries=5)
def remind(order_id):
    order = Order.objects.get(pk=order_id)
    if not order.paid:
        order.reminders += 1
        order.save()
