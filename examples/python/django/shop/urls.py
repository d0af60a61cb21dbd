from datetime import timedelta

from django.db import transaction
from django.http import JsonResponse
from django.urls import path
from django.utils import timezone

from .models import Order
from .tasks import remind


def order(request):
    """Makes an order, and has its customer reminded: in an hour, and after three days."""
    order = Order.objects.create()
    transaction.on_commit(lambda: remind.apply_async((order.pk,), countdown=3600))
    transaction.on_commit(lambda: remind.apply_async((order.pk,), eta=timezone.now() + timedelta(days=3)))
    return JsonResponse({"order": order.pk}, status=201)


urlpatterns = [path("orders", order)]
